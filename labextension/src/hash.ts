import { sha256 } from '@noble/hashes/sha2';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils';

/** Return the SHA-256 of a source in UTF-8, in hex. `crypto.subtle` is missing on plain HTTP, and it is asynchronous. */
export function hashSource(source: string): string {
  return bytesToHex(sha256(utf8ToBytes(source)));
}

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Return a text without halves of surrogate pairs, which UTF-8 cannot express. The hash of the text stays. */
export function toWellFormed(text: string): string {
  return text.replace(LONE, '\ufffd');
}
