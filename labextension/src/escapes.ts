// Controls (without tab and line feed), invisible and bidirectional characters, other spaces that look like nothing
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]|\ud834[\udd73-\udd7a]|\ud82f[\udca0-\udca3]/g;

/** Return a text with an escape in the place of each control, bidirectional or invisible character. Lines stay lines. */
export function escapeHidden(text: string): string {
  return text.replace(HIDDEN, escapeCharacter);
}

/** Return one line of at most `limit` characters, with escapes. */
export function escapeLine(text: string, limit = 200): string {
  const cut = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return escapeHidden(cut).replace(/\n/g, '⏎').replace(/\t/g, ' ');
}

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code < 0x100) {
    return `\\x${hex.padStart(2, '0')}`;
  }
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}
