import { bytesOf, check, law, pattern, sameBytes, unlessRoom, withAllocations } from "../kit/checks.js";
import type { Law } from "../law.js";

const topic = "reach";

/** Bytes that are cheap to make, and differ between places 256 KiB, or any power of two, apart. */
function longPattern(bytes: number, seed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(bytes / 4)).map((_, i) => Math.imul(i + seed + 1, 2654435761));
  return new Uint8Array(words.buffer, 0, bytes);
}

function largeLaw(name: string, run: Law["run"]): Law {
  return { ...law(topic, name, run), exempt: unlessRoom(3 * 2 ** 20) };
}

/** Work that is divided into pieces, or takes more workgroups than fit along one side of a grid. */
export const reachLaws: readonly Law[] = [
  largeLaw("large copies arrive whole, from any offset at any offset", async ({ backend, forEach }) => {
    const cases = [
      { from: 0, to: 0, bytes: 300_000 },
      { from: 16, to: 32, bytes: 1_000_003 },
      { from: 1, to: 3, bytes: 600_001 },
      { from: 4, to: 8, bytes: 524_292 },
      { from: 7, to: 0, bytes: 262_145 },
    ].flatMap((given) => [false, true].map((within) => ({ ...given, within })));
    await forEach(cases, async ({ from, to, bytes, within }) => {
      const length = 2 * bytes + 64;
      const target = within ? bytes + 20 + to : to;
      await withAllocations(backend, [length, within ? 1 : length], async (source, other) => {
        const content = longPattern(length, bytes);
        const image = within ? content.slice() : longPattern(length, 7);
        const destination = within ? source : other;
        backend.copyHtoD(source, content);
        if (!within) backend.copyHtoD(other, image);
        image.set(content.subarray(from, from + bytes), target);
        const places = [
          { handle: destination, byteOffset: target },
          { handle: source, byteOffset: from },
        ] as const;
        backend.copyDtoD(...places, bytes);
        sameBytes(
          await bytesOf(backend, destination, length),
          image,
          `${bytes} bytes from ${from} to ${target}`,
        );
      });
    });
  }),

  largeLaw("large fills reach their end, and no further", async ({ backend, forEach }) => {
    const cases = [
      { dtype: "f32" as const, value: -2.5, before: 3, count: 150_001 },
      { dtype: "f16" as const, value: 1.5, before: 5, count: 300_003 },
      { dtype: "u8" as const, value: 77, before: 1, count: 600_001 },
      { dtype: "f32" as const, value: 0, before: 0, count: 1 << 17 },
    ];
    const bits = { f32: [0x00, 0x00, 0x20, 0xc0], f16: [0x00, 0x3e], u8: [77] };
    await forEach(cases, async ({ dtype, value, before, count }) => {
      const element = value === 0 ? [0, 0, 0, 0] : bits[dtype];
      const byteOffset = before * element.length;
      const bytes = count * element.length;
      await withAllocations(backend, [bytes + byteOffset + 9], async (handle) => {
        const image = longPattern(bytes + byteOffset + 9, 3);
        backend.copyHtoD(handle, image);
        backend.fill({ handle, byteOffset }, value, count, dtype);
        for (let i = 0; i < bytes; i++) image[byteOffset + i] = element[i % element.length]!;
        sameBytes(await bytesOf(backend, handle, image.length), image, `${count} times ${value}`);
      });
    });
  }),

  largeLaw("large memory that is used again is zero to its end", async ({ backend }) => {
    for (const bytes of [1_048_579, 1_048_579, 1_000_003, 2_500_003, 2_500_003]) {
      const handle = backend.alloc(bytes);
      const got = await bytesOf(backend, handle, bytes);
      // The old contents must never reappear, in any allocation.
      backend.fill(handle, 0xff, bytes, "u8");
      backend.free(handle);
      sameBytes(got, new Uint8Array(bytes), `a fresh allocation of ${bytes} bytes`);
    }
  }),

  {
    // 65,536 workgroups of 64: one more than the largest dimension that a grid may have.
    ...law(topic, "unary: millions of elements are all computed", async ({ backend }) => {
      const n = 2 ** 22 + 5;
      await withAllocations(backend, [4 * n + 4], async (handle) => {
        backend.fill(handle, 3, n + 1);
        backend.unary({ kind: "neg", n, input: handle, output: handle });
        // Some of it: all would take longer to read than to compute.
        const places = [0, 1000, 2 ** 16, 2 ** 18 - 3, 2 ** 20, 3 * 2 ** 20 + 1, 2 ** 22 - 64, n - 60];
        const reads = places.map((place) => bytesOf(backend, { handle, byteOffset: 4 * place }, 4 * 61));
        for (const [i, bytes] of (await Promise.all(reads)).entries())
          for (const [j, got] of new Float32Array(bytes.buffer).entries()) {
            const at = places[i]! + j;
            check(got === (at < n ? -3 : 3), `element ${at} of ${n} is ${got}`);
          }
      });
    }),
    operation: "unary",
    exempt: (capabilities, backend) =>
      backend.supports("unary", { kind: "neg" })
        ? unlessRoom(2 ** 24 + 24)(capabilities, backend)
        : "neg in f32 is not supported",
  },

  law(topic, "a thousand allocations live side by side", async ({ backend }) => {
    const handles = Array.from({ length: 1000 }, (_, i) => backend.alloc(1 + (i % 70)));
    try {
      for (const [i, handle] of handles.entries()) backend.copyHtoD(handle, pattern(1 + (i % 70), i));
      const reads = handles.map((handle, i) => bytesOf(backend, handle, 1 + (i % 70)));
      for (const [i, got] of (await Promise.all(reads)).entries())
        sameBytes(got, pattern(1 + (i % 70), i), `allocation ${i} of 1000`);
    } finally {
      for (const handle of handles) backend.free(handle);
    }
  }),
];
