import { type DType, decodeFloat16, dtypeBytes, dtypes, elementTypes, type HostBytes } from "@backplane/core";
import fc from "fast-check";
import { encoded } from "../elements.js";
import { bytesOf, check, law, PendingChecks, pattern, sameBytes, withAllocations } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";

const topic = "memory";

/** Newer than the types here, and than some engines. */
const { Float16Array } = globalThis as { readonly Float16Array?: typeof Uint16Array };

/** All bytes that a fill writes, from the first to the last. */
function filled(value: number, count: number, dtype: DType): Uint8Array<ArrayBuffer> {
  return encoded(new Array<number>(count).fill(value), dtype);
}

export const transferLaws: readonly Law[] = [
  law(topic, "copyHtoD takes the bytes at the call", async ({ backend }) => {
    await withAllocations(backend, [64, 100_003], async (small, large) => {
      for (const [handle, bytes] of [
        [small, 64],
        [large, 100_003],
      ] as const) {
        const source = pattern(bytes, 2);
        backend.copyHtoD(handle, source);
        source.fill(0xee);
        const second = pattern(7, 3);
        backend.copyHtoD({ handle, byteOffset: 11 }, second);
        second.fill(0xee);
        const expected = pattern(bytes, 2);
        expected.set(pattern(7, 3), 11);
        sameBytes(await bytesOf(backend, handle, bytes), expected, `${bytes} bytes, changed after the call`);
      }
    });
  }),

  law(topic, "copyDtoH gives exactly the bytes asked for, at any offset and length", async ({ backend }) => {
    await withAllocations(backend, [80], async (handle) => {
      const content = pattern(80, 4);
      backend.copyHtoD(handle, content);
      const reads = new PendingChecks();
      for (let byteOffset = 0; byteOffset <= 9; byteOffset++)
        for (let length = 1; length <= 67; length++) {
          const target = new Uint8Array(length + 2).fill(0x55);
          const read = backend.copyDtoH(target.subarray(1, length + 1), { handle, byteOffset });
          reads.add(
            settled(read, "copyDtoH").then(() => {
              const what = `${length} bytes from offset ${byteOffset}`;
              sameBytes(
                target.subarray(1, length + 1),
                content.subarray(byteOffset, byteOffset + length),
                what,
              );
              check(target[0] === 0x55 && target[length + 1] === 0x55, `${what}: wrote outside of the view`);
            }),
          );
        }
      await reads.all();
    });
  }),

  law(topic, "copyHtoD writes exactly the bytes given, at any offset and length", async ({ backend }) => {
    await withAllocations(backend, [80], async (handle) => {
      const image = pattern(80, 5);
      backend.copyHtoD(handle, image);
      const reads = new PendingChecks();
      for (let byteOffset = 0; byteOffset <= 9; byteOffset++)
        for (let length = 1; length <= 67; length++) {
          const bytes = pattern(length, byteOffset * 100 + length);
          backend.copyHtoD({ handle, byteOffset }, bytes);
          image.set(bytes, byteOffset);
          const expected = image.slice();
          const what = `after a write of ${length} bytes at offset ${byteOffset}`;
          reads.add(bytesOf(backend, handle, 80).then((got) => sameBytes(got, expected, what)));
        }
      await reads.all();
    });
  }),

  law(topic, "host arrays of every kind show their own range", async ({ backend }) => {
    const sharedBuffers = typeof SharedArrayBuffer === "undefined" ? [] : [new SharedArrayBuffer(64)];
    for (const buffer of [new ArrayBuffer(64), ...sharedBuffers]) {
      const views: readonly HostBytes[] = [
        ...[new Uint8Array(buffer, 5, 13), new DataView(buffer, 3, 9), new Float32Array(buffer, 8, 3)],
        ...[
          new Float64Array(buffer, 16, 2),
          new Uint16Array(buffer, 2, 5),
          new Int8Array(buffer).subarray(60),
        ],
        ...[new BigUint64Array(buffer, 8, 1), buffer],
        ...(Float16Array === undefined ? [] : [new Float16Array(buffer, 10, 7)]),
      ];
      await withAllocations(backend, [70], async (handle) => {
        for (const [i, view] of views.entries()) {
          const kind = `${view.constructor.name} on ${buffer.constructor.name}`;
          const content = pattern(64, i);
          new Uint8Array(buffer).set(content);
          const start = ArrayBuffer.isView(view) ? view.byteOffset : 0;
          const image = new Uint8Array(70).fill(0xaa);
          image.set(content.subarray(start, start + view.byteLength), 1);
          backend.fill(handle, 0xaa, 70, "u8");
          backend.copyHtoD({ handle, byteOffset: 1 }, view);
          sameBytes(await bytesOf(backend, handle, 70), image, `copyHtoD from a ${kind}`);

          new Uint8Array(buffer).fill(0x11);
          await settled(backend.copyDtoH(view, { handle, byteOffset: 1 }), "copyDtoH");
          const expected = new Uint8Array(64).fill(0x11);
          expected.set(content.subarray(start, start + view.byteLength), start);
          sameBytes(buffer, expected, `copyDtoH to a ${kind}`);
        }
      });
    }
  }),

  law(topic, "copyDtoD copies any bytes to any place that does not overlap", async ({ backend, forAll }) => {
    const offset = fc.nat(40);
    const bytes = fc.oneof(fc.nat(40), fc.constantFrom(255, 256, 257, 1000));
    const given = fc.record({ from: offset, to: offset, bytes, within: fc.boolean() });
    await forAll(given, async ({ from, to, bytes, within }) => {
      // Within one allocation the second place follows the first.
      const target = within ? from + bytes + to : to;
      await withAllocations(backend, [2200, 1100], async (source, other) => {
        const content = pattern(2200, bytes);
        const destination = within ? source : other;
        const image = within ? content.slice() : pattern(1100, 9);
        backend.copyHtoD(source, content);
        if (!within) backend.copyHtoD(other, image);
        image.set(content.subarray(from, from + bytes), target);
        backend.copyDtoD(
          { handle: destination, byteOffset: target },
          { handle: source, byteOffset: from },
          bytes,
        );
        const what = `${bytes} bytes from ${from} to ${target}`;
        sameBytes(await bytesOf(backend, destination, image.length), image, what);
        if (!within) sameBytes(await bytesOf(backend, source, 2200), content, `the source of ${what}`);
        // And back, to the place before.
        if (within && bytes > 0) {
          image.set(image.subarray(target, target + bytes), from);
          backend.copyDtoD(
            { handle: source, byteOffset: from },
            { handle: source, byteOffset: target },
            bytes,
          );
          sameBytes(await bytesOf(backend, source, 2200), image, `${bytes} bytes from ${target} to ${from}`);
        }
      });
    });
  }),

  law(topic, "fill writes exactly its elements, in every element type", async ({ backend, forAll }) => {
    const dtype = fc.constantFrom(...dtypes);
    const number = fc.constantFrom(0, -0, 1, -2.5, 65504, 1e-7, 3e38, Infinity, -Infinity);
    const place = fc.constantFrom(0, 1, 0.3, 0.5, 0.99, 1 / 3);
    const count = fc.oneof(fc.nat(20), fc.constantFrom(63, 64, 65, 255, 256, 257));
    const given = fc.record({ dtype, number, place, before: fc.nat(9), count });
    await forAll(given, async ({ dtype, number, place, before, count }) => {
      const { range } = elementTypes[dtype];
      // Of integers some that the type holds, its ends among them.
      const value = range === undefined ? number : Math.floor(range[0] + place * (range[1] - range[0]));
      const byteOffset = before * dtypeBytes[dtype];
      await withAllocations(backend, [1100], async (handle) => {
        const image = pattern(1100, count);
        backend.copyHtoD(handle, image);
        backend.fill({ handle, byteOffset }, value, count, dtype);
        image.set(filled(value, count, dtype), byteOffset);
        sameBytes(await bytesOf(backend, handle, 1100), image, `${count} times ${value} at ${byteOffset}`);
      });
    });
    // The same on all platforms is only that a NaN stays a NaN.
    await withAllocations(backend, [16, 8], async (floats, halves) => {
      backend.fill(floats, Number.NaN, 4);
      backend.fill(halves, Number.NaN, 4, "f16");
      const got = [
        ...new Float32Array((await bytesOf(backend, floats, 16)).buffer),
        ...decodeFloat16(new Uint16Array((await bytesOf(backend, halves, 8)).buffer)),
      ];
      check(got.every(Number.isNaN), `fill with NaN gave ${got.join(", ")}`);
    });
  }),

  law(topic, "a read sees the effects of all calls before it and of none after", async ({ backend }) => {
    await withAllocations(backend, [40, 40], async (one, two) => {
      const reads = new PendingChecks();
      const images = [new Uint8Array(40), new Uint8Array(40)];
      for (let step = 0; step < 60; step++) {
        const [handle, image] = step % 3 === 2 ? [two, images[1]!] : [one, images[0]!];
        if (step % 4 === 0) {
          backend.fill({ handle, byteOffset: step % 8 }, step, 20, "u8");
          image.fill(step, step % 8, (step % 8) + 20);
        } else if (step % 4 === 1) {
          backend.copyHtoD({ handle, byteOffset: step % 7 }, pattern(11, step));
          image.set(pattern(11, step), step % 7);
        } else if (handle === one) {
          backend.copyDtoD({ handle: one, byteOffset: 3 }, { handle: two, byteOffset: 5 }, 17);
          images[0]!.set(images[1]!.subarray(5, 22), 3);
        } else {
          backend.copyDtoD({ handle: two, byteOffset: 1 }, { handle: one, byteOffset: 0 }, 24);
          images[1]!.set(images[0]!.subarray(0, 24), 1);
        }
        // After a write the next call comes at once, with no read between.
        if (step % 4 === 1) continue;
        const expected = image.slice();
        reads.add(bytesOf(backend, handle, 40).then((got) => sameBytes(got, expected, `after step ${step}`)));
      }
      await reads.all();
    });
  }),

  law(topic, "8 MiB go there and back", async ({ backend }) => {
    const bytes = 8 * 2 ** 20 + 3;
    await withAllocations(backend, [bytes, bytes], async (one, two) => {
      const words = new Uint32Array(Math.ceil(bytes / 4)).map((_, i) => Math.imul(i + 1, 2654435761));
      const content = new Uint8Array(words.buffer, 0, bytes);
      backend.copyHtoD(one, content);
      backend.copyDtoD(two, one, bytes);
      sameBytes(await bytesOf(backend, two, bytes), content, "the copy of a large array");
    });
  }),
];
