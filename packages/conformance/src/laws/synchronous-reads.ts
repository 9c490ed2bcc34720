import type { ComputeBackend, HostBytes, Operand } from "@backplane/core";
import fc from "fast-check";
import {
  bytesOf,
  check,
  law,
  pattern,
  refuses,
  sameBytes,
  unlessRoom,
  withAllocations,
} from "../kit/checks.js";
import type { Law } from "../law.js";

const topic = "memory";

/** Enough bytes that a copy takes a moment. */
const busyBytes = 2 ** 22;

/** A law on backends that declare synchronous reads. */
function declaredLaw(name: string, run: Law["run"]): Law {
  return {
    ...law(topic, name, run),
    exempt: ({ synchronousReads }) =>
      synchronousReads ? undefined : "capabilities.synchronousReads is not declared",
  };
}

function bytesNow(backend: ComputeBackend, source: Operand, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  const answer: unknown = backend.copyDtoHSync(bytes, source);
  check(answer === undefined, `copyDtoHSync answers with ${String(answer)}`);
  return bytes;
}

const ofWork = declaredLaw(
  "copyDtoHSync sees all calls before it, in whatever number",
  async ({ backend }) => {
    await withAllocations(backend, [busyBytes, busyBytes, 64], async (one, two, small) => {
      for (const calls of [1, 7, 1500]) {
        const content = pattern(busyBytes, calls);
        backend.copyHtoD(one, content);
        backend.copyDtoD(two, one, busyBytes);
        sameBytes(bytesNow(backend, two, busyBytes), content, "the copy of a large array");
        // Small calls that follow large work, each on the result of the one before.
        backend.copyDtoD(one, two, busyBytes);
        for (let call = 0; call < calls; call++) {
          const [to, from] = call % 2 === 0 ? [small, one] : [one, small];
          if (call % 5 === 4) backend.fill({ handle: from, byteOffset: call % 32 }, call % 251, 32, "u8");
          backend.copyDtoD(to, from, 64);
        }
        const early = bytesOf(backend, small, 64);
        const now = bytesNow(backend, small, 64);
        backend.fill(small, 0xcc, 64, "u8");
        sameBytes(await early, now, `64 bytes after ${calls} calls, read by copyDtoHSync; by copyDtoH`);
        sameBytes(bytesNow(backend, small, 64), new Uint8Array(64).fill(0xcc), "what a fill left");
      }
    });
  },
);

const declaredLaws: readonly Law[] = [
  {
    ...ofWork,
    exempt: (capabilities, backend) =>
      ofWork.exempt?.(capabilities, backend) ?? unlessRoom(busyBytes)(capabilities, backend),
  },

  declaredLaw("copyDtoHSync gives the bytes that copyDtoH gives, and no others", async (context) => {
    const { backend, forAll } = context;
    const given = fc.record({
      byteOffset: fc.nat(40),
      length: fc.nat(300),
      before: fc.nat(9),
      seed: fc.nat(99),
    });
    await forAll(given, async ({ byteOffset, length, before, seed }) => {
      await withAllocations(backend, [byteOffset + length + 5], async (handle) => {
        const content = pattern(byteOffset + length + 5, seed);
        backend.copyHtoD(handle, content);
        const target = new Uint8Array(before + length + 3).fill(0x55);
        backend.copyDtoHSync(target.subarray(before, before + length), { handle, byteOffset });
        const image = new Uint8Array(before + length + 3).fill(0x55);
        image.set(content.subarray(byteOffset, byteOffset + length), before);
        const what = `${length} bytes from offset ${byteOffset}`;
        sameBytes(target, image, what);
        sameBytes(
          await bytesOf(backend, { handle, byteOffset }, length),
          image.subarray(before, before + length),
          what,
        );
      });
    });
  }),

  declaredLaw("copyDtoHSync refuses what copyDtoH rejects, and changes nothing", async ({ backend }) => {
    const content = pattern(64, 3);
    const [live, stale] = [backend.alloc(64), backend.alloc(64)];
    backend.copyHtoD(live, content);
    backend.free(stale);
    const target = new Uint8Array(9).fill(0x33);
    const refused = (code: Parameters<typeof refuses>[0], shown: string, host: unknown, source: Operand) => {
      const what = `copyDtoHSync ${shown}`;
      const { operation } = refuses(code, what, () => backend.copyDtoHSync(host as HostBytes, source));
      check(operation === "copyDtoHSync", `${what}: the error names ${operation} as its operation`);
    };
    refused("INVALID_HANDLE", "from a freed handle", target, stale);
    refused("INVALID_HANDLE", "from 0", target, 0 as typeof live);
    for (const byteOffset of [56, 65, 2 ** 53 - 1])
      refused("OUT_OF_BOUNDS", `at offset ${byteOffset}`, target, { handle: live, byteOffset });
    for (const byteOffset of [-1, 0.5, Number.NaN])
      refused("INVALID_ARGUMENT", `at offset ${byteOffset}`, target, { handle: live, byteOffset });
    refused("OUT_OF_BOUNDS", "of nothing past the end", new Uint8Array(0), { handle: live, byteOffset: 65 });
    for (const host of [[1, 2], "text", null, undefined])
      refused("INVALID_ARGUMENT", String(host), host, live);
    sameBytes(target, new Uint8Array(9).fill(0x33), "the host array of refused reads");
    sameBytes(bytesNow(backend, live, 64), content, "memory after refused reads");
    backend.free(live);
  }),
];

export const synchronousReadLaws: readonly Law[] = [
  ...declaredLaws,
  {
    ...law(topic, "copyDtoHSync is UNSUPPORTED unless it is declared", async ({ backend }) => {
      await withAllocations(backend, [16], async (handle) => {
        backend.fill(handle, 7, 16, "u8");
        const target = new Uint8Array(16).fill(0x33);
        refuses("UNSUPPORTED", "copyDtoHSync", () => backend.copyDtoHSync(target, handle));
        sameBytes(target, new Uint8Array(16).fill(0x33), "the host array of a refused read");
        sameBytes(await bytesOf(backend, handle, 16), new Uint8Array(16).fill(7), "memory after it");
      });
    }),
    exempt: ({ synchronousReads }) =>
      synchronousReads ? "capabilities.synchronousReads is declared" : undefined,
  },
];
