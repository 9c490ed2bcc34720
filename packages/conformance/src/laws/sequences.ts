import {
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  type Numerics,
  type OperationName,
  operationNames,
} from "@backplane/core";
import {
  bytesOf,
  check,
  law,
  PendingChecks,
  pattern,
  sameBytes,
  unlessRoom,
  withAllocations,
} from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { createReferenceBackend } from "../reference.js";
import { checkResults, operandSize, type Results } from "./bench.js";
import {
  invoke,
  mediumCalls,
  operandBytes,
  operandType,
  smallCalls,
  supportedTypes,
  type TestCall,
  unlessSupported,
} from "./calls.js";

function operationLaw(topic: string, operation: OperationName, name: string, run: Law["run"]): Law {
  return {
    ...law(topic, `${operation}: ${name}`, run),
    operation,
    exempt: unlessSupported(smallCalls[operation]),
  };
}

const rounds = 3;

/** Returns the contents of an operand at the time of a round's call. */
function contentOf(call: TestCall, dtype: DType, name: string, round: number): Uint8Array<ArrayBuffer> {
  const index = Object.keys(call.operands).indexOf(name);
  return operandBytes(call.operands[name]!, index + round, operandType(call, dtype, name));
}

/** The outputs of each round, from the reference. */
async function expectedRounds(call: TestCall, dtype: DType): Promise<Results[]> {
  await using reference = createReferenceBackend();
  await reference.init();
  const names = Object.keys(call.operands);
  const places = Object.fromEntries(
    names.map((name) => [name, reference.alloc(operandSize(call, dtype, name))]),
  );
  const results: Results[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const name of names) reference.copyHtoD(places[name]!, contentOf(call, dtype, name, round));
    invoke(reference, call, dtype, places);
    results.push(await resultsAt(reference, call, dtype, places));
  }
  return results;
}

/** Reads the outputs of a call at these places. */
async function resultsAt(
  backend: ComputeBackend,
  call: TestCall,
  dtype: DType,
  places: Readonly<Record<string, DeviceHandle>>,
): Promise<Results> {
  const reads = call.outputs.map(async (name): Promise<[string, Uint8Array<ArrayBuffer>]> => {
    return [name, await bytesOf(backend, places[name]!, operandSize(call, dtype, name))];
  });
  return Object.fromEntries(await Promise.all(reads));
}

/** The call with the error that it is allowed on a backend with these numerics. */
function allowing(call: TestCall, { transformedConvolutions = "never" }: Numerics): TestCall {
  const { allowedByTransforms } = call;
  return transformedConvolutions === "never" || allowedByTransforms === undefined
    ? call
    : { ...call, allowed: allowedByTransforms };
}

/**
 * Calls follow one another on the same memory without any wait. Each must see what was written before it, and nothing
 * that is written after it by the host, by the next call, or by the next owner of memory that is freed meanwhile.
 */
const orderingLaws: readonly Law[] = operationNames.map((operation) =>
  operationLaw(
    "ordering",
    operation,
    "uses its operands as they are at the call",
    async ({ backend, forEach }) => {
      const dtypes = supportedTypes(backend, smallCalls[operation]);
      const cases = [
        ...dtypes.map((dtype) => ({ dtype, size: "small" as const })),
        // Sums of types with fewer bits would not be whole numbers any more.
        ...dtypes
          .filter((dtype) => dtypeBytes[dtype] === 4)
          .map((dtype) => ({ dtype, size: "medium" as const })),
      ];
      await forEach(cases, async ({ dtype, size }) => {
        const call = allowing(
          size === "small" ? smallCalls[operation] : mediumCalls[operation],
          backend.capabilities.numerics,
        );
        const names = Object.keys(call.operands);
        const expected = await expectedRounds(call, dtype);
        const bytes = (name: string) => operandSize(call, dtype, name);
        const places = Object.fromEntries(names.map((name) => [name, backend.alloc(bytes(name))]));
        const results = expected.map(() =>
          Object.fromEntries(call.outputs.map((name) => [name, backend.alloc(bytes(name))])),
        );
        for (const [round, result] of results.entries()) {
          for (const name of names) backend.copyHtoD(places[name]!, contentOf(call, dtype, name, round));
          invoke(backend, call, dtype, places);
          for (const name of call.outputs) backend.copyDtoD(result[name]!, places[name]!, bytes(name));
          for (const name of names) backend.fill(places[name]!, 0xff, bytes(name), "u8");
        }
        for (const name of names) backend.free(places[name]!);
        const next = names.map((name) => backend.alloc(bytes(name), { zero: false }));
        for (const [i, name] of names.entries()) backend.fill(next[i]!, 0xff, bytes(name), "u8");
        const reads = new PendingChecks();
        for (const [round, result] of results.entries())
          reads.add(
            resultsAt(backend, call, dtype, result).then((got) =>
              checkResults(call, dtype, got, expected[round]!, `the result of call ${round}`),
            ),
          );
        for (const handle of [...next, ...results.flatMap((result) => Object.values(result))])
          backend.free(handle);
        await reads.all();
      });
    },
  ),
);

/** Many calls may be under way, whatever a backend keeps for each. */
const manyCalls: Law = {
  ...law(
    "ordering",
    "binary: thousands of calls that are under way keep their own arguments",
    async (context) => {
      const { backend } = context;
      const n = 2000;
      const [zeros, output] = [backend.alloc(4), backend.alloc(4 * n)];
      try {
        for (let i = 0; i < n; i++)
          backend.binary({
            ...{ kind: "add", n: 1, a: zeros, b: { scalar: i + 1 } },
            output: { handle: output, byteOffset: 4 * i },
          });
        const got = new Float32Array((await bytesOf(backend, output, 4 * n)).buffer);
        const wrong = got.findIndex((value, i) => value !== i + 1);
        check(wrong < 0, `call ${wrong} of ${n} gave ${got[wrong]}, not ${wrong + 1}`);
      } finally {
        backend.free(zeros);
        backend.free(output);
      }
    },
  ),
  operation: "binary",
  exempt: (_capabilities, backend) =>
    backend.supports("binary", { kind: "add" }) ? undefined : "add in f32 is not supported",
};

const waitingBytes = 18 * 2 ** 20;

/** Bytes from the host may have to wait for their turn, but not in memory that enqueued work uses. */
const waitingWrites: Law = {
  ...law(
    "ordering",
    "writes that wait for their turn disturb nothing, even where memory was freed under work",
    async ({ fresh }) => {
      const backend = await fresh();
      const bytes = waitingBytes;
      const [source, result, small] = [
        backend.alloc(bytes, { zero: false }),
        backend.alloc(bytes, { zero: false }),
        backend.alloc(1000),
      ];
      backend.fill(source, 1.5, bytes / 4);
      backend.copyDtoD(result, source, bytes);
      backend.free(source);
      backend.copyHtoD(small, pattern(1000, 1));
      const reads = new PendingChecks();
      const expected = new Float32Array(bytes / 4).fill(1.5);
      reads.add(
        bytesOf(backend, result, bytes).then((got) =>
          sameBytes(got, expected, "the copy of memory that was then freed"),
        ),
      );
      reads.add(
        bytesOf(backend, small, 1000).then((got) =>
          sameBytes(got, pattern(1000, 1), "what was written meanwhile"),
        ),
      );
      backend.free(result);
      backend.free(small);
      await reads.all();
    },
  ),
  exempt: unlessRoom(waitingBytes),
};

const flushing: Law = law("ordering", "flush changes nothing but when work begins", async ({ backend }) => {
  await withAllocations(backend, [300, 300], async (one, two) => {
    const reads = new PendingChecks();
    const flush = () => {
      const answer: unknown = backend.flush();
      check(answer === undefined, `flush answers with ${String(answer)}`);
    };
    for (let round = 0; round < 12; round++) {
      const source = pattern(300, round);
      const calls = [
        () => backend.copyHtoD(one, source),
        () => backend.copyDtoD(two, one, 300),
        () => backend.fill({ handle: two, byteOffset: 8 }, round, 4, "u8"),
        () => backend.copyDtoD({ handle: one, byteOffset: 100 }, { handle: two, byteOffset: 4 }, 90),
        () => backend.fill(two, 0xdd, 300, "u8"),
      ];
      const copied = source.slice().fill(round, 8, 12);
      const expected = source.slice();
      expected.set(copied.subarray(4, 94), 100);
      const what = `round ${round}, with a flush after every ${1 + (round % 3)} calls`;
      for (const [i, call] of calls.entries()) {
        call();
        if (i % (1 + (round % 3)) === 0) flush();
      }
      reads.add(bytesOf(backend, one, 300).then((got) => sameBytes(got, expected, what)));
      flush();
      flush();
    }
    await reads.all();
  });
});

/** Memory that an operation takes for itself must come back, for every kernel. */
const resourceLaws: readonly Law[] = operationNames.map((operation) =>
  operationLaw("resources", operation, "rounds of calls leave nothing behind", async ({ fresh }) => {
    const backend = await fresh();
    const call = mediumCalls[operation];
    const dtypes = supportedTypes(backend, call);
    const names = Object.keys(call.operands);
    const round = async (index: number) => {
      const dtype = dtypes[index % dtypes.length]!;
      const places = Object.fromEntries(
        names.map((name) => [name, backend.alloc(operandSize(call, dtype, name), { zero: false })]),
      );
      for (const name of names)
        backend.fill(places[name]!, 1, call.operands[name]!, operandType(call, dtype, name));
      invoke(backend, call, dtype, places);
      const read = bytesOf(backend, places[call.outputs[0]!]!, 2);
      for (const name of names) backend.free(places[name]!);
      await read;
    };
    const reserved = async () => {
      await settled(backend.synchronize(), "synchronize");
      return backend.memory().reservedBytes;
    };
    for (let index = 0; index < 6; index++) await round(index);
    const before = await reserved();
    // So many rounds that their operands together exceed all reserved memory.
    const perRound = names.reduce((sum, name) => sum + operandSize(call, dtypes[0]!, name), 0);
    const count = Math.min(400, Math.max(24, Math.ceil((2 * before) / perRound)));
    for (let index = 0; index < count; index++) await round(index);
    const after = await reserved();
    check(
      after <= 1.25 * before + 2 ** 20,
      `${after} bytes are reserved after ${count} more rounds of ${operation}, ${before} before them`,
    );
  }),
);

export const sequenceLaws: readonly Law[] = [
  ...orderingLaws,
  flushing,
  manyCalls,
  waitingWrites,
  ...resourceLaws,
];
