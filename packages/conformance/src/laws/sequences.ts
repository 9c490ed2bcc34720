import { type FloatType, floatTypes, type OperationName, operationNames } from "@backplane/core";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { createReferenceBackend } from "../reference.js";
import { checkResult, operandSize } from "./bench.js";
import { invoke, operandBytes, type SmallCall, smallCalls } from "./calls.js";
import {
  bytesOf,
  check,
  law,
  PendingChecks,
  pattern,
  sameBytes,
  unlessRoom,
  withAllocations,
} from "./support.js";

/** Calls large enough for kernels that work in several steps and need memory of their own for it. */
const mediumCalls: Readonly<Record<OperationName, SmallCall>> = {
  gemm: medium("gemm", { a: 9 * 600, b: 600 * 72, c: 9 * 72 }, { m: 9, n: 72, k: 600, beta: 2 }),
  batchedGemm: medium(
    "batchedGemm",
    { a: 3 * 10 * 600, b: 3 * 600 * 24, c: 3 * 10 * 24 },
    { batch: 3, m: 10, n: 24, k: 600, beta: 2 },
  ),
  conv2d: medium(
    "conv2d",
    { input: 2 * 8 * 24 * 24, filter: 6 * 8 * 9, bias: 6, output: 2 * 6 * 24 * 24 },
    { inputShape: [2, 8, 24, 24], filterShape: [6, 8, 3, 3], padding: [1, 1, 1, 1], stride: [1, 1] },
  ),
  attention: medium(
    "attention",
    { q: 4 * 20 * 16, k: 2 * 300 * 16, v: 2 * 300 * 16, out: 4 * 20 * 16 },
    { batch: 1, heads: 4, kvHeads: 2, queryLength: 20, keyLength: 300, headSize: 16 },
  ),
  reduce: medium("reduce", { input: 60_000, output: 3 }, { kind: "sum", shape: [3, 20_000], axes: [1] }),
  unary: medium("unary", { input: 20_001, output: 20_001 }, { kind: "neg", n: 20_001 }),
  binary: medium("binary", { a: 20_001, b: 20_001, output: 20_001 }, { kind: "add", n: 20_001 }),
};

function medium(
  operation: OperationName,
  operands: Readonly<Record<string, number>>,
  rest: Readonly<Record<string, unknown>>,
): SmallCall {
  return { ...smallCalls[operation], operands, rest };
}

function operationLaw(topic: string, operation: OperationName, name: string, run: Law["run"]): Law {
  const kind = smallCalls[operation].rest.kind as string | undefined;
  return {
    ...law(topic, `${operation}: ${name}`, run),
    operation,
    exempt: (_capabilities, backend) =>
      floatTypes.some((dtype) => backend.supports(operation, { dtype, kind }))
        ? undefined
        : `${operation} is not supported`,
  };
}

const rounds = 3;

/** Returns the contents of an operand at the time of a round's call. */
function contentOf(call: SmallCall, dtype: FloatType, name: string, round: number): Uint8Array<ArrayBuffer> {
  const index = Object.keys(call.operands).indexOf(name);
  return operandBytes(call.operands[name]!, index + round, dtype);
}

/** The output of each round, from the reference. */
async function expectedRounds(call: SmallCall, dtype: FloatType): Promise<Uint8Array<ArrayBuffer>[]> {
  await using reference = createReferenceBackend();
  await reference.init();
  const names = Object.keys(call.operands);
  const places = Object.fromEntries(
    names.map((name) => [name, reference.alloc(operandSize(call, dtype, name))]),
  );
  const results: Uint8Array<ArrayBuffer>[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const name of names) reference.copyHtoD(places[name]!, contentOf(call, dtype, name, round));
    invoke(reference, call, dtype, places);
    results.push(await bytesOf(reference, places[call.output]!, operandSize(call, dtype, call.output)));
  }
  return results;
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
      const kind = smallCalls[operation].rest.kind as string | undefined;
      const dtypes = floatTypes.filter((dtype) => backend.supports(operation, { dtype, kind }));
      const cases = [
        ...dtypes.map((dtype) => ({ dtype, size: "small" as const })),
        // Sums of f16 would not be whole numbers any more.
        ...dtypes.filter((dtype) => dtype === "f32").map((dtype) => ({ dtype, size: "medium" as const })),
      ];
      await forEach(cases, async ({ dtype, size }) => {
        const call = size === "small" ? smallCalls[operation] : mediumCalls[operation];
        const names = Object.keys(call.operands);
        const expected = await expectedRounds(call, dtype);
        const bytes = operandSize(call, dtype, call.output);
        const places = Object.fromEntries(
          names.map((name) => [name, backend.alloc(operandSize(call, dtype, name))]),
        );
        const results = expected.map(() => backend.alloc(bytes));
        for (const [round, result] of results.entries()) {
          for (const name of names) backend.copyHtoD(places[name]!, contentOf(call, dtype, name, round));
          invoke(backend, call, dtype, places);
          backend.copyDtoD(result, places[call.output]!, bytes);
          for (const name of names) backend.fill(places[name]!, 0xff, operandSize(call, dtype, name), "u8");
        }
        for (const name of names) backend.free(places[name]!);
        const next = names.map((name) => backend.alloc(operandSize(call, dtype, name), { zero: false }));
        for (const [i, name] of names.entries())
          backend.fill(next[i]!, 0xff, operandSize(call, dtype, name), "u8");
        const reads = new PendingChecks();
        for (const [round, result] of results.entries())
          reads.add(
            bytesOf(backend, result, bytes).then((got) =>
              checkResult(call, dtype, got, expected[round]!, `the result of call ${round}`),
            ),
          );
        for (const handle of [...next, ...results]) backend.free(handle);
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
    const kind = call.rest.kind as string | undefined;
    const dtypes = floatTypes.filter((dtype) => backend.supports(operation, { dtype, kind }));
    const names = Object.keys(call.operands);
    const round = async (index: number) => {
      const dtype = dtypes[index % dtypes.length]!;
      const places = Object.fromEntries(
        names.map((name) => [name, backend.alloc(operandSize(call, dtype, name), { zero: false })]),
      );
      for (const name of names) backend.fill(places[name]!, 1, call.operands[name]!, dtype);
      invoke(backend, call, dtype, places);
      const read = bytesOf(backend, places[call.output]!, 2);
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
