// A module's number comes from its place in the build. By default, it comes from names with the build's folder in them.
module.exports = { optimization: { moduleIds: "natural", chunkIds: "natural" } };
