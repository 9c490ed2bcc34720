import { assert } from "chai";
import { noise, withDevice } from "./support.js";

const WINDOW = 65_536;

/** Several windows and a rest. */
const BYTES = 5 * WINDOW + 777;

/** Where windows, the pieces of copies (a window less what they may start before), words and blocks end. */
const places = [
  ...[0, 1, 3, 4, 15, 16, 17, 255, 256],
  ...[WINDOW - 768, WINDOW - 513, WINDOW - 512, WINDOW - 511, WINDOW - 256],
  ...[WINDOW - 16, WINDOW - 5, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 4, WINDOW + 257],
  ...[2 * WINDOW - 1024, 2 * WINDOW - 1025, 2 * WINDOW - 1, 2 * WINDOW, 3 * WINDOW + 2],
];

const lengths = [
  ...[1, 4, 17, WINDOW - 512, WINDOW - 511, WINDOW - 256, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 16],
  ...[2 * WINDOW - 1024, 2 * WINDOW - 1023, 2 * WINDOW + 3],
];

/** Every place with some length and every length at some place, at each `turn` other ones. */
function* pairs(turn: number): Iterable<[place: number, length: number]> {
  for (let i = 0; i < Math.max(places.length, lengths.length); i++)
    yield [places[i % places.length]!, lengths[(i + turn) % lengths.length]!];
}

function assertSame(got: Uint8Array, expected: Uint8Array, label: string): void {
  if (Buffer.compare(got, expected) === 0) return;
  const place = expected.findIndex((byte, i) => byte !== got[i]);
  assert.fail(`${label}: byte ${place} is ${got[place]}, not ${expected[place]}`);
}

describe("webgpu memory above the binding limit", () => {
  const device = withDevice({ limits: { maxStorageBufferBindingSize: WINDOW } });
  const content = noise(BYTES, 1);
  const other = noise(BYTES, 2);

  it("allocates more than a binding shows", () => {
    assert.isAtLeast(device().description!.limits.maxAllocationBytes, 2 ** 28);
  });

  it("writes and reads any part, and nothing else", async () => {
    const { driver } = device();
    const expected = content.slice();
    const memory = device().upload(expected);
    for (const [place, length] of [...pairs(0), ...pairs(5)]) {
      const source = noise(length, place + length);
      driver.write(memory, place, source);
      expected.set(source, place);
      const label = `${length} bytes at ${place}`;
      assertSame(await device().download(memory, place, length), source, label);
    }
    assertSame(await device().download(memory, 0, BYTES), expected, "all");
    driver.free(memory);
  });

  it("fills any part, and nothing else", async () => {
    const { driver } = device();
    const expected = content.slice();
    const memory = device().upload(expected);
    let pattern = 0x04030201;
    for (const [byteOffset, byteLength] of [...pairs(1), ...pairs(6)]) {
      pattern = (pattern * 5 + 1) >>> 0;
      driver.fill({ memory, byteOffset, byteLength }, pattern);
      for (let i = byteOffset; i < byteOffset + byteLength; i++) expected[i] = pattern >>> (8 * (i % 4));
      assertSame(await device().download(memory, 0, BYTES), expected, `${byteLength} bytes at ${byteOffset}`);
    }
    driver.free(memory);
  });

  it("copies any part to any place, and nothing else", async () => {
    const { driver } = device();
    const source = device().upload(content);
    const memory = device().upload(other);
    const expected = other.slice();
    for (const turn of [2, 7])
      for (const [i, [from, byteLength]] of [...pairs(turn)].entries()) {
        const to = places[(i * 7 + turn) % places.length]!;
        driver.copy({ memory, byteOffset: to, byteLength }, { memory: source, byteOffset: from, byteLength });
        expected.set(content.subarray(from, from + byteLength), to);
        const label = `${byteLength} bytes from ${from} to ${to}`;
        assertSame(await device().download(memory, 0, BYTES), expected, label);
      }
    assertSame(await device().download(source, 0, BYTES), content, "the source");
    for (const freed of [source, memory]) driver.free(freed);
  });

  it("copies within an allocation, right behind the source and far away", async () => {
    const { driver } = device();
    for (const [i, [from, byteLength]] of [...pairs(3)].entries())
      for (const gap of [0, [1, 2, 3, 4, 5, 300][i % 6]!, WINDOW]) {
        const to = from + byteLength + gap;
        if (to + byteLength > BYTES) continue;
        const [target, origin] = i % 2 === 0 ? [to, from] : [from, to];
        const memory = device().upload(content);
        const expected = content.slice();
        driver.copy({ memory, byteOffset: target, byteLength }, { memory, byteOffset: origin, byteLength });
        expected.set(content.subarray(origin, origin + byteLength), target);
        const label = `${byteLength} bytes from ${origin} to ${target}`;
        assertSame(await device().download(memory, 0, BYTES), expected, label);
        driver.free(memory);
      }
  });

  it("hands out zeros in used memory of any size", async () => {
    const { driver } = device();
    for (const bytes of [WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW - 1023, 3 * WINDOW, BYTES]) {
      const used = driver.alloc(bytes, false);
      driver.fill({ memory: used, byteOffset: 0, byteLength: bytes }, 0xeeeeeeee);
      driver.free(used);
      const memory = driver.alloc(bytes, true);
      assert.strictEqual(memory, used, "the used memory comes back");
      driver.write(memory, bytes - 1, Uint8Array.of(7));
      const expected = new Uint8Array(bytes);
      expected[bytes - 1] = 7;
      assertSame(await device().download(memory, 0, bytes), expected, `${bytes} bytes`);
      driver.free(memory);
    }
  });

  it("reads what there was before it is overwritten, in windows too", async () => {
    const { driver } = device();
    const long = new Uint8Array(9 * 2 ** 20 + 3);
    for (let start = 0; start < long.length; start += 77_777)
      long.set(content.subarray(0, Math.min(77_777, long.length - start)), start);
    const memory = device().upload(long);
    const read = device().download(memory, 1, long.length - 1);
    driver.fill({ memory, byteOffset: 0, byteLength: long.length }, 0);
    assertSame(await read, long.subarray(1), "the long read");
    driver.free(memory);
  });
});
