import {
  type AllocOptions,
  type BackendError,
  type ComputeBackend,
  type DeviceHandle,
  dtypeBytes,
  type ErrorCode,
  type HostBytes,
  operationNames,
  operations,
} from "@backplane/core";
import { bytesOf, check, law, pattern, refuses, rejects, sameBytes } from "../kit/checks.js";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";
import { CallBench, operandSize } from "./bench.js";
import { operandType, smallCalls, supportedTypes, unlessSupported } from "./calls.js";
import { malformed } from "./malformed.js";

const topic = "errors";

/** Values that no backend ever issues as a handle. */
const forgeries: readonly unknown[] = [
  0,
  -1,
  0.5,
  Number.NaN,
  2 ** 53,
  "1",
  null,
  {},
  { handle: 0, byteOffset: 0 },
];

/**
 * A law for each operation: `probe` gets a bench on which it makes calls that must be refused, one for each element
 * type, and what `prepare` has returned for all of them.
 */
function forEveryOperation<Prepared = undefined>(
  name: string,
  probe: (bench: CallBench, backend: ComputeBackend, prepared: Prepared) => Promise<void>,
  prepare?: (context: LawContext) => Promise<Prepared>,
): Law[] {
  return operationNames.map((operation) => ({
    ...law(topic, `${operation}: ${name}`, async (context) => {
      const { backend } = context;
      const prepared = (await prepare?.(context)) as Prepared;
      for (const dtype of supportedTypes(backend, smallCalls[operation])) {
        const bench = new CallBench(backend, smallCalls[operation], dtype);
        try {
          await probe(bench, backend, prepared);
          await bench.checkUntouched("calls that were refused");
          await bench.checkWorks("calls that were refused");
        } finally {
          bench.free();
        }
      }
    }),
    operation,
    exempt: unlessSupported(smallCalls[operation]),
  }));
}

/** Checks that the error names the operation that failed, and the argument. */
function refusesNamed(code: ErrorCode, bench: CallBench, change: Readonly<Record<string, unknown>>): void {
  const { operation } = bench.call;
  // JSON has neither NaN nor undefined nor bigints.
  const shown = JSON.stringify(change, (_key, value) =>
    ["object", "string", "boolean"].includes(typeof value) || Number.isFinite(value) ? value : String(value),
  );
  const error = refuses(code, `${operation} ${bench.dtype} with ${shown}`, () => bench.invoke(change));
  check(error.operation === operation, `the error of ${operation} names ${error.operation} as its operation`);
  check(error.message.includes(operation), `the message of ${operation} does not name it: ${error.message}`);
}

const operationErrors: readonly Law[] = [
  ...forEveryOperation<{ readonly other: ComputeBackend; readonly foreign: DeviceHandle }>(
    "freed, foreign and forged handles are refused",
    async (bench, backend, { other, foreign }) => {
      const stale = backend.alloc(4096);
      backend.free(stale);
      for (const name of Object.keys(bench.call.operands)) {
        for (const handle of [stale, foreign, ...forgeries])
          refusesNamed("INVALID_HANDLE", bench, { [name]: handle });
        for (const handle of [stale, foreign])
          refusesNamed("INVALID_HANDLE", bench, { [name]: { handle, byteOffset: 4 } });
      }
      sameBytes(await bytesOf(other, foreign, 4096), new Uint8Array(4096), "another backend's memory");
    },
    async ({ fresh }) => {
      const other = await fresh();
      return { other, foreign: other.alloc(4096) };
    },
  ),

  ...forEveryOperation("places past the end or off the grid are refused", async (bench, backend) => {
    for (const name of Object.keys(bench.call.operands)) {
      const elementBytes = dtypeBytes[operandType(bench.call, bench.dtype, name)];
      const bytes = operandSize(bench.call, bench.dtype, name);
      const roomy = backend.alloc(bytes + 8);
      try {
        const at = (byteOffset: number) => ({ [name]: { handle: roomy, byteOffset } });
        for (const byteOffset of [8 + elementBytes, bytes + 8, bytes + 12, 2 ** 40])
          refusesNamed("OUT_OF_BOUNDS", bench, at(byteOffset));
        for (const byteOffset of [elementBytes / 2, 4.5, -elementBytes, Number.NaN, 2 ** 53])
          refusesNamed("INVALID_ARGUMENT", bench, at(byteOffset));
      } finally {
        backend.free(roomy);
      }
    }
    for (const [, change] of smallCalls[bench.call.operation].tooLarge)
      refusesNamed("OUT_OF_BOUNDS", bench, change);
  }),

  ...forEveryOperation("an output that overlaps an input is refused", async (bench, backend) => {
    const { call, dtype } = bench;
    const pairs = call.outputs.flatMap((output) =>
      Object.keys(call.operands).flatMap((name) => (name === output ? [] : [{ name, output }])),
    );
    for (const { name, output } of pairs) {
      const outputBytes = operandSize(call, dtype, output);
      const bytes = operandSize(call, dtype, name);
      const step = dtypeBytes[operandType(call, dtype, name)];
      const outputStep = dtypeBytes[operandType(call, dtype, output)];
      const both = backend.alloc(bytes + outputBytes);
      try {
        const content = pattern(bytes + outputBytes, 1);
        backend.copyHtoD(both, content);
        const overlap = (from: number, to: number) =>
          refusesNamed("INVALID_ARGUMENT", bench, {
            [name]: { handle: both, byteOffset: from },
            [output]: { handle: both, byteOffset: to },
          });
        overlap(0, bytes - outputStep);
        overlap(outputBytes - step, 0);
        if (bytes > outputStep) overlap(0, outputStep);
        if (!call.inPlace?.includes(name)) overlap(0, 0);
        sameBytes(await bytesOf(backend, both, content.length), content, "memory of refused calls");
      } finally {
        backend.free(both);
      }
    }
  }),

  ...forEveryOperation("nothing to compute is legal and writes nothing", async (bench) => {
    for (const change of smallCalls[bench.call.operation].nothing) bench.invoke(change);
    await bench.checkUntouched("calls with nothing to compute");
  }),

  ...forEveryOperation("malformed arguments are refused", async (bench) => {
    const { operation } = bench.call;
    for (const change of malformed(operations[operation], smallCalls[operation]))
      refusesNamed("INVALID_ARGUMENT", bench, change);
  }),

  ...forEveryOperation("arguments and operands may have getters of a class", (bench) => bench.checkGetters()),

  ...forEveryOperation("an argument by a wrong name is refused by that name", async (bench) => {
    const { operation, rest, operands } = bench.call;
    for (const name of [...Object.keys(rest), ...Object.keys(operands)]) {
      const wrong = `${name}Misspelt`;
      const what = `${operation} ${bench.dtype} with ${wrong} for ${name}`;
      const { message } = refuses("INVALID_ARGUMENT", what, () => bench.rename(name, wrong));
      check(message.includes(wrong), `${what}: the message does not name it: ${message}`);
    }
  }),
];

/** `refuses`, if the error must name the method, with which `what` begins. */
function refusesCall(code: ErrorCode, what: string, call: () => unknown): void {
  checkNamed(refuses(code, what, call), what);
}

async function rejectsCall(code: ErrorCode, what: string, call: () => Promise<unknown>): Promise<void> {
  checkNamed(await rejects(code, what, call), what);
}

function checkNamed({ operation, message }: BackendError, what: string): void {
  const [method = ""] = /^\w+/.exec(what) ?? [];
  check(operation === method, `${what}: the error names ${operation} as its operation`);
  check(message.includes(method), `${what}: the message does not name it: ${message}`);
}

const memoryErrors: readonly Law[] = [
  law(topic, "memory calls refuse freed, foreign and forged handles", async ({ backend, fresh }) => {
    const other = await fresh();
    const foreign = other.alloc(64);
    const live = backend.alloc(64);
    const stale = backend.alloc(64);
    backend.fill(live, 7, 64, "u8");
    backend.free(stale);
    const before = backend.memory();
    for (const value of [stale, foreign, ...forgeries]) {
      const handle = value as DeviceHandle;
      const shown = typeof value === "object" ? JSON.stringify(value) : String(value);
      refusesCall("INVALID_HANDLE", `free(${shown})`, () => backend.free(handle));
      refusesCall("INVALID_HANDLE", `copyHtoD to ${shown}`, () =>
        backend.copyHtoD(handle, new Uint8Array(4)),
      );
      refusesCall("INVALID_HANDLE", `copyDtoD to ${shown}`, () => backend.copyDtoD(handle, live, 4));
      refusesCall("INVALID_HANDLE", `copyDtoD from ${shown}`, () => backend.copyDtoD(live, handle, 4));
      refusesCall("INVALID_HANDLE", `fill of ${shown}`, () => backend.fill(handle, 0, 1));
      await rejectsCall("INVALID_HANDLE", `copyDtoH from ${shown}`, () =>
        backend.copyDtoH(new Uint8Array(4), handle),
      );
      if (value !== undefined)
        refusesCall("INVALID_HANDLE", `native(${shown})`, () => backend.native(handle));
    }
    const after = backend.memory();
    check(
      after.liveAllocations === before.liveAllocations && after.liveBytes === before.liveBytes,
      "refused calls changed the statistics",
    );
    sameBytes(await bytesOf(backend, live, 64), new Uint8Array(64).fill(7), "memory after refused calls");
    sameBytes(await bytesOf(other, foreign, 64), new Uint8Array(64), "another backend's memory");
    backend.free(live);
  }),

  law(topic, "memory calls refuse bad sizes, offsets and values, and change nothing", async ({ backend }) => {
    const content = pattern(64, 3);
    const [one, two] = [backend.alloc(64), backend.alloc(64)];
    for (const handle of [one, two]) backend.copyHtoD(handle, content);
    const at = (byteOffset: unknown) => ({ handle: one, byteOffset: byteOffset as number });
    const target = new Uint8Array(9).fill(0x33);

    for (const bytes of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, "8", undefined])
      refusesCall("INVALID_ARGUMENT", `alloc(${String(bytes)})`, () => backend.alloc(bytes as number));
    refusesCall("INVALID_ARGUMENT", "alloc with zero: 1", () =>
      backend.alloc(4, { zero: 1 as unknown as boolean }),
    );
    refusesCall("INVALID_ARGUMENT", "alloc with zeros: false", () =>
      backend.alloc(4, { zeros: false } as AllocOptions),
    );

    for (const [byteOffset, code] of [
      ...([-1, 0.5, Number.NaN, 2 ** 53, "0", undefined] as const).map(
        (bad) => [bad, "INVALID_ARGUMENT"] as const,
      ),
      ...([56, 64, 65, 2 ** 53 - 1] as const).map((far) => [far, "OUT_OF_BOUNDS"] as const),
    ]) {
      const shown = `at offset ${String(byteOffset)}`;
      refusesCall(code, `copyHtoD ${shown}`, () => backend.copyHtoD(at(byteOffset), target));
      refusesCall(code, `copyDtoD to ${shown}`, () => backend.copyDtoD(at(byteOffset), two, 9));
      refusesCall(code, `copyDtoD from ${shown}`, () => backend.copyDtoD(two, at(byteOffset), 9));
      refusesCall(code, `fill ${shown}`, () => backend.fill(at(byteOffset), 1, 9, "u8"));
      await rejectsCall(code, `copyDtoH ${shown}`, () => backend.copyDtoH(target, at(byteOffset)));
    }
    for (const [dtype, byteOffset] of [
      ["f32", 1],
      ["f32", 2],
      ["f16", 1],
    ] as const)
      refusesCall("INVALID_ARGUMENT", `fill of ${dtype} at ${byteOffset}`, () =>
        backend.fill(at(byteOffset), 1, 1, dtype),
      );
    for (const count of [-1, 0.5, Number.NaN, "1"])
      refusesCall("INVALID_ARGUMENT", `fill of ${count}`, () => backend.fill(one, 1, count as number));
    refusesCall("OUT_OF_BOUNDS", "fill of 17 elements of 64 bytes", () => backend.fill(one, 1, 17));
    refusesCall("OUT_OF_BOUNDS", "fill of 2^53 - 1 elements", () => backend.fill(one, 1, 2 ** 53 - 1));
    for (const value of [-1, 256, 0.5])
      refusesCall("INVALID_ARGUMENT", `fill of byte ${value}`, () => backend.fill(one, value, 1, "u8"));
    refusesCall("INVALID_ARGUMENT", "fill of u16", () => backend.fill(one, 1, 1, "u16" as "u8"));
    refusesCall("INVALID_ARGUMENT", "fill of a string", () => backend.fill(one, "1" as unknown as number, 1));
    for (const bytes of [-1, 0.5, Number.NaN])
      refusesCall("INVALID_ARGUMENT", `copyDtoD of ${bytes}`, () => backend.copyDtoD(one, two, bytes));
    for (const [to, from] of [
      [0, 0],
      [7, 0],
      [0, 7],
    ] as const)
      refusesCall("INVALID_ARGUMENT", "copyDtoD onto itself", () => backend.copyDtoD(at(to), at(from), 8));
    for (const host of [[1, 2], "text", 4, null, undefined, {}]) {
      const bytes = host as unknown as HostBytes;
      refusesCall("INVALID_ARGUMENT", `copyHtoD of ${String(host)}`, () => backend.copyHtoD(one, bytes));
      await rejectsCall("INVALID_ARGUMENT", `copyDtoH to ${String(host)}`, () =>
        backend.copyDtoH(bytes, one),
      );
    }

    // A copy of nothing, too, may go up to the end and no further.
    const nothing = new Uint8Array(0);
    backend.copyHtoD(at(64), nothing);
    await settled(backend.copyDtoH(nothing, at(64)), "copyDtoH");
    refusesCall("OUT_OF_BOUNDS", "copyHtoD of nothing", () => backend.copyHtoD(at(65), nothing));
    refusesCall("OUT_OF_BOUNDS", "copyDtoD of nothing", () => backend.copyDtoD(at(65), two, 0));
    refusesCall("OUT_OF_BOUNDS", "fill of nothing", () => backend.fill(at(65), 1, 0, "u8"));
    await rejectsCall("OUT_OF_BOUNDS", "copyDtoH of nothing", () => backend.copyDtoH(nothing, at(65)));

    sameBytes(target, new Uint8Array(9).fill(0x33), "the host array of refused reads");
    for (const handle of [one, two])
      sameBytes(await bytesOf(backend, handle, 64), content, "memory after refused calls");
    backend.copyHtoD(at(5), target);
    content.set(target, 5);
    sameBytes(await bytesOf(backend, one, 64), content, "memory after a legal call");
    backend.free(one);
    backend.free(two);
    refusesCall("INVALID_HANDLE", "free, again", () => backend.free(one));
    refusesCall("INVALID_HANDLE", "free, again", () => backend.free(two));
  }),

  law(topic, "buffers that were transferred away are refused", async ({ backend }) => {
    const handle = backend.alloc(16);
    const content = pattern(16, 2);
    backend.copyHtoD(handle, content);
    const gone = new ArrayBuffer(16);
    const views = [new Uint8Array(gone), new DataView(gone), gone];
    structuredClone(gone, { transfer: [gone] });
    for (const view of views) {
      refuses("INVALID_ARGUMENT", "copyHtoD from a detached buffer", () => backend.copyHtoD(handle, view));
      await rejects("INVALID_ARGUMENT", "copyDtoH to a detached buffer", () =>
        backend.copyDtoH(view, handle),
      );
    }
    sameBytes(await bytesOf(backend, handle, 16), content, "memory after refused calls");
    backend.free(handle);
  }),

  law(
    topic,
    "a read whose array is transferred away meanwhile rejects and harms nothing",
    async ({ backend }) => {
      const handle = backend.alloc(16);
      backend.copyHtoD(handle, pattern(16, 2));
      const target = new Uint8Array(16);
      const read = backend.copyDtoH(target, handle);
      structuredClone(target.buffer, { transfer: [target.buffer] });
      await rejects("INVALID_ARGUMENT", "copyDtoH", () => read);
      sameBytes(await bytesOf(backend, handle, 16), pattern(16, 2), "a later read");
      backend.free(handle);
    },
  ),
];

export const errorLaws: readonly Law[] = [...memoryErrors, ...operationErrors];
