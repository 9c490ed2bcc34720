/**
 * Returns a text that differs for different bytes, but for a chance of 2^-128 or so: contents with the same text are written once.
 * Four sums are mixed with each word, in the manner of MurmurHash3 (A. Appleby, public domain), which reads several hundred
 * megabytes a second. It is no protection against contents that are made to have the same digest.
 */
export function digestOf(bytes: Uint8Array): string {
  const { length } = bytes;
  const sums = Uint32Array.of(0x9e3779b9, 0x243f6a88, 0xb7e15162, 0x6a09e667);
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  let [a, b, c, d] = sums as unknown as [number, number, number, number];
  const step = (sum: number, word: number): number => {
    const mixed = Math.imul(word, 0xcc9e2d51);
    const turned = sum ^ Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
    return (Math.imul((turned << 13) | (turned >>> 19), 5) + 0xe6546b64) | 0;
  };
  let i = 0;
  for (; i + 16 <= length; i += 16) {
    a = step(a + d, view.getInt32(i, true));
    b = step(b + a, view.getInt32(i + 4, true));
    c = step(c + b, view.getInt32(i + 8, true));
    d = step(d + c, view.getInt32(i + 12, true));
  }
  for (; i < length; i++) {
    a = step(a + d, bytes[i]!);
    c = step(c + b, bytes[i]!);
    [b, d] = [step(b + a, i), step(d + c, i)];
  }
  const finish = (sum: number): string => {
    let mixed = sum ^ length;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0).toString(36);
  };
  return [a ^ c, b ^ d, c + d, d].map(finish).join(" ").concat(` ${length}`);
}
