import { expect } from "chai";

type Numbers = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

/** Fails unless both have the same bits. Comparing large arrays by `deep.equal` takes longer than computing them. */
export function expectSameElements(got: Numbers, expected: Numbers, label = "elements"): void {
  expect(got.length, `${label}: length`).to.equal(expected.length);
  const [one, other] = [bytes(got), bytes(expected)];
  if (Buffer.compare(one, other) === 0) return;
  const at = got.findIndex((value, i) => !Object.is(value, expected[i]));
  expect.fail(`${label}: element ${at} is ${got[at]}, not ${expected[at]}`);
}

function bytes({ buffer, byteOffset, byteLength }: Numbers): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
