// Runs on each rank: every call is compared with what is computed here from the inputs of all ranks.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createCpuBackend } from "@backplane/backend-cpu";
import {
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  decodeFloat16,
  download,
  dtypeBytes,
  dtypes,
  encodeFloat16,
  float16FromBits,
  float16ToBits,
  upload,
} from "@backplane/core";
import {
  type AllReduceKind,
  BucketReduction,
  type Communicator,
  openCommunicator,
  type ReducedType,
} from "#src/index.js";

const sizes = [0, 1, 3, 63, 1025];
const kinds: readonly AllReduceKind[] = ["sum", "mean", "max", "min"];
const types: readonly ReducedType[] = ["f32", "f16", "i32"];

/** Whole numbers, exact in each type and in any order of summing; other ones on each rank. */
function element(rank: number, i: number): number {
  return ((i * 7 + rank * 13 + (i % 5) * rank) % 101) - 50;
}

function host(type: ReducedType, values: readonly number[]): Uint8Array {
  const arrays = {
    f32: () => Float32Array.from(values),
    f16: () => encodeFloat16(values),
    i32: () => Int32Array.from(values),
  };
  return new Uint8Array(arrays[type]().buffer);
}

function numbers(type: ReducedType, bytes: Uint8Array): number[] {
  const buffer = bytes.slice().buffer;
  const arrays = {
    f32: () => new Float32Array(buffer),
    f16: () => decodeFloat16(new Uint16Array(buffer)),
    i32: () => new Int32Array(buffer),
  };
  return [...arrays[type]()];
}

const mark = 0xa5;
/** Bytes around an output that must keep their bits. */
const pad = 12;

/** An allocation with contents between marked bytes, at an offset that is not aligned to more than an element. */
function between(backend: ComputeBackend, contents: Uint8Array, pads = pad): DeviceHandle {
  const all = new Uint8Array(pads + contents.length + pads).fill(mark);
  all.set(contents, pads);
  return upload(backend, all);
}

async function contentsOf(backend: ComputeBackend, handle: DeviceHandle, bytes: number): Promise<Uint8Array> {
  const all = new Uint8Array(pad + bytes + pad);
  await backend.copyDtoH(all, handle);
  backend.free(handle);
  for (const edge of [all.subarray(0, pad), all.subarray(pad + bytes)])
    assert(
      edge.every((byte) => byte === mark),
      "bytes around the output have changed",
    );
  return all.subarray(pad, pad + bytes);
}

function expectedOf(kind: AllReduceKind, type: ReducedType, ranks: number, i: number): number {
  const all = Array.from({ length: ranks }, (_, rank) => element(rank, i));
  const sum = all.reduce((a, b) => a + b, 0);
  if (kind === "max" || kind === "min") return Math[kind](...all);
  if (kind === "sum") return sum;
  const mean = {
    f32: Math.fround(sum / ranks),
    f16: float16FromBits(float16ToBits(Math.fround(sum / ranks))),
    i32: Math.trunc(sum / ranks),
  };
  return mean[type];
}

async function reductions(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  for (const type of types)
    for (const count of sizes) {
      const bytes = count * dtypeBytes[type];
      const mine = host(
        type,
        Array.from({ length: count }, (_, i) => element(rank, i)),
      );
      const parts = host(
        type,
        Array.from({ length: count * size }, (_, i) => element(rank, i)),
      );
      // All under way together.
      await Promise.all(
        kinds.map(async (kind) => {
          const title = `${type} ${kind} of ${count}`;
          const [input, output] = [between(backend, mine), between(backend, mine)];
          const [wide, part] = [upload(backend, parts), between(backend, mine)];
          const at = (handle: DeviceHandle) => ({ handle, byteOffset: pad });
          const args = { input: at(input), count, dtype: type, kind };
          const reduced = communicator.allReduce(backend, { ...args, output: at(output) });
          const inPlace = communicator.allReduce(backend, args);
          const scattered = communicator.reduceScatter(backend, { ...args, input: wide, output: at(part) });
          await Promise.all([reduced, inPlace, scattered]);
          const expected = Array.from({ length: count }, (_, i) => expectedOf(kind, type, size, i) + 0);
          const own = Array.from(
            { length: count },
            (_, i) => expectedOf(kind, type, size, rank * count + i) + 0,
          );
          for (const [handle, wanted] of [
            [output, expected],
            [input, expected],
            [part, own],
          ] as const) {
            const found = numbers(type, await contentsOf(backend, handle, bytes)).map((value) => value + 0);
            assert.deepEqual(found, wanted, title);
          }
          backend.free(wide);
        }),
      );
    }
}

/** Sums that round: the same bits on all ranks, close to the sum in double precision, and f16 rounded once from f32. */
async function rounding(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  const count = 5000;
  const value = (of: number, i: number): number => Math.sin(i + 100 * of) * 10 ** ((i % 7) - 3);
  for (const type of ["f32", "f16"] as const) {
    const inputOf = (of: number): number[] =>
      numbers(
        type,
        host(
          type,
          Array.from({ length: count }, (_, i) => value(of, i)),
        ),
      );
    const all = Array.from({ length: size }, (_, of) => inputOf(of));
    const handle = upload(backend, host(type, all[rank]!));
    await communicator.allReduce(backend, { input: handle, count, dtype: type });
    const bytes = new Uint8Array(count * dtypeBytes[type]);
    await backend.copyDtoH(bytes, handle);
    // One unit in the last place for each addition of f32, and half a unit of f16 in the end.
    const unit = { f32: 2 ** -24, f16: 2 ** -11 }[type];
    numbers(type, bytes).forEach((found, i) => {
      const terms = all.map((input) => input[i]!);
      const exact = terms.reduce((a, b) => a + b, 0);
      const magnitude = terms.reduce((a, b) => a + Math.abs(b), 0);
      const bound = (size - 1) * 2 ** -24 * magnitude + unit * Math.abs(exact) + 2 ** -25;
      assert(Math.abs(found - exact) <= bound, `${type} ${i}: ${found} is not ${exact}`);
    });
    const everywhere = backend.alloc(bytes.length * size);
    await communicator.allGather(backend, { input: handle, output: everywhere, count, dtype: type });
    const copies = await download(backend, everywhere, Uint8Array, bytes.length * size);
    for (let of = 0; of < size; of++)
      assert(
        Buffer.from(bytes).equals(Buffer.from(copies.subarray(of * bytes.length, (of + 1) * bytes.length))),
      );
    backend.free(handle);
    backend.free(everywhere);
  }
}

async function integers(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { size } = communicator;
  const handle = upload(backend, Int32Array.of(2 ** 31 - 1, -7, 7));
  await communicator.allReduce(backend, { input: handle, count: 3, dtype: "i32" });
  const found = await download(backend, handle, Int32Array, 3);
  assert.deepEqual(
    [...found],
    [(size * (2 ** 31 - 1)) | 0, -7 * size, 7 * size].map((x) => x + 0),
  );
  backend.free(handle);
}

async function copies(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  for (const dtype of dtypes)
    for (const count of sizes) {
      const bytes = count * dtypeBytes[dtype];
      const bytesOf = (of: number): Uint8Array =>
        Uint8Array.from({ length: bytes }, (_, i) => i * 31 + of * 17);
      for (const root of new Set([0, size - 1])) {
        const data = between(backend, bytesOf(rank));
        await communicator.broadcast(backend, {
          data: { handle: data, byteOffset: pad },
          count,
          dtype,
          root,
        });
        assert.deepEqual(
          await contentsOf(backend, data, bytes),
          bytesOf(root),
          `broadcast ${dtype} ${count}`,
        );
      }
      const [input, output] = [
        upload(backend, bytesOf(rank)),
        between(backend, new Uint8Array(size * bytes)),
      ];
      await communicator.allGather(backend, {
        input,
        output: { handle: output, byteOffset: pad },
        count,
        dtype,
      });
      const all = await contentsOf(backend, output, size * bytes);
      for (let of = 0; of < size; of++)
        assert.deepEqual(
          all.subarray(of * bytes, (of + 1) * bytes),
          bytesOf(of),
          `allGather ${dtype} ${count}`,
        );
      backend.free(input);
    }
}

/** Around the ring with two tags at once, taken in the other order; two messages of one tag keep theirs. */
async function messages(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  if (size === 1) return;
  const [to, from] = [(rank + 1) % size, (rank + size - 1) % size];
  for (const count of sizes) {
    const dtype: DType = "u8";
    const bytesOf = (of: number, message: number): Uint8Array =>
      Uint8Array.from({ length: count }, (_, i) => i * 3 + of * 11 + message * 5);
    const sent = [1, 1, 16383].map(async (tag, message) => {
      const input = upload(backend, bytesOf(rank, message));
      const sending = communicator.send(backend, { input, count, dtype, to, tag });
      // What was sent is what was there at the call.
      backend.fill(input, 0, count, "u8");
      await sending;
      backend.free(input);
    });
    const outputs = [2, 0, 1].map((message) => ({
      message,
      output: between(backend, new Uint8Array(count)),
    }));
    const received = outputs.map(({ message, output }) =>
      communicator.receive(backend, {
        ...{ output: { handle: output, byteOffset: pad }, count, dtype, from },
        tag: message === 2 ? 16383 : 1,
      }),
    );
    await Promise.all([...sent, ...received]);
    for (const { message, output } of outputs)
      assert.deepEqual(
        await contentsOf(backend, output, count),
        bytesOf(from, message),
        `message of ${count}`,
      );
  }
}

/** Inputs are as at the call, results are there when the promise resolves, and timers run meanwhile. */
async function order(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { size } = communicator;
  const count = 1 << 18;
  const handle = backend.alloc(4 * count);
  const output = backend.alloc(4 * count);
  backend.fill(handle, 1, count);
  const first = communicator.allReduce(backend, { input: handle, output, count });
  backend.fill(handle, 2, count);
  const second = communicator.allReduce(backend, { input: handle, count });
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  await first;
  const early = await download(backend, output, Float32Array, count);
  await second;
  const late = await download(backend, handle, Float32Array, count);
  while (turns === 0) await new Promise(setImmediate);
  clearInterval(timer);
  assert(early.every((value) => value === size));
  assert(late.every((value) => value === 2 * size));
  backend.free(handle);
  backend.free(output);
}

/** More bytes than messages are sent in at once, from an odd place, in three calls under way together. */
async function large(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  const count = 300_001;
  const bytes = 4 * count;
  const input = between(
    backend,
    new Uint8Array(Float32Array.from({ length: count }, (_, i) => i + rank).buffer),
  );
  const output = between(backend, new Uint8Array(bytes));
  const all = between(backend, new Uint8Array(size * bytes));
  const at = (handle: DeviceHandle) => ({ handle, byteOffset: pad });
  await Promise.all([
    communicator.allReduce(backend, { input: at(input), output: at(output), count }),
    communicator.allGather(backend, { input: at(input), output: at(all), count }),
    communicator.broadcast(backend, { data: at(input), count, root: size - 1 }),
  ]);
  const [sums, copies, last] = [
    await contentsOf(backend, output, bytes),
    await contentsOf(backend, all, size * bytes),
    await contentsOf(backend, input, bytes),
  ].map((found) => new Float32Array(found.slice().buffer));
  const sumOfRanks = (size * (size - 1)) / 2;
  assert(sums!.every((value, i) => value === size * i + sumOfRanks));
  assert(copies!.every((value, i) => value === (i % count) + Math.floor(i / count)));
  assert(last!.every((value, i) => value === i + size - 1));
}

/** Arrays that come in another order on each rank, in two rounds; a round that fails does not spoil the next. */
async function buckets(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  const counts = [5, 0, 3, 70, 1, 40];
  using reduction = new BucketReduction(communicator, backend, counts, { bucketBytes: 160, kind: "mean" });
  assert.equal(reduction.buckets, 3);
  const arrays = counts.map((count) => upload(backend, new Float32Array(count)));
  const mean = (size - 1) / 2;
  for (const round of [1, 2]) {
    for (const [i, handle] of arrays.entries()) backend.fill(handle, round * (i + rank), counts[i]!);
    for (let k = 0; k < counts.length; k++) {
      const i = (k + rank) % counts.length;
      reduction.add(i, arrays[i]!);
    }
    assert.throws(() => reduction.add(0, arrays[0]!), { code: "INVALID_ARGUMENT", message: /added already/ });
    await reduction.finish();
    for (const [i, handle] of arrays.entries()) {
      const found = await download(backend, handle, Float32Array, counts[i]!);
      assert(found.every((value) => value === Math.fround(round * (i + mean))));
    }
    await assert.rejects(reduction.finish(), { code: "INVALID_ARGUMENT", message: /missing: 0, 1, 2/ });
    assert.throws(() => reduction.add(6, arrays[0]!), { code: "INVALID_ARGUMENT" });
  }
  for (const handle of arrays) backend.free(handle);
}

/** Odd and even ranks, numbered backwards; the last rank is in no group of the second split. */
async function groups(communicator: Communicator, backend: ComputeBackend): Promise<void> {
  const { rank, size } = communicator;
  await using group = (await communicator.split({ color: rank % 2, key: -rank }))!;
  const members = Array.from({ length: size }, (_, of) => of).filter((of) => of % 2 === rank % 2);
  assert.equal(group.size, members.length);
  assert.equal(group.rank, members.reverse().indexOf(rank));
  const handle = upload(backend, Int32Array.of(rank));
  const all = upload(backend, Int32Array.of(rank));
  const both = [
    group.allReduce(backend, { input: handle, count: 1, dtype: "i32" }),
    communicator.allReduce(backend, { input: all, count: 1, dtype: "i32" }),
  ];
  await Promise.all(both);
  const sums = [await download(backend, handle, Int32Array, 1), await download(backend, all, Int32Array, 1)];
  const sum = (of: readonly number[]): number => of.reduce((a, b) => a + b, 0);
  assert.deepEqual([sums[0]![0], sums[1]![0]], [sum(members), (size * (size - 1)) / 2]);
  const rest = await communicator.split({ color: rank === size - 1 ? undefined : 3 });
  assert.equal(rest?.size, rank === size - 1 ? undefined : size - 1);
  await rest?.dispose();
  await assert
    .rejects(async () => rest === undefined || rest.barrier(), { code: "DISPOSED" })
    .catch((error) => {
      if (rest !== undefined) throw error;
    });
  backend.free(handle);
  backend.free(all);
}

/** WebAssembly needs the signal of a bad access for itself. */
async function traps(): Promise<void> {
  // (module (memory 1) (func (export "f") (result i32) i32.const 0x7fffffff i32.load))
  const code = [0x41, 0xff, 0xff, 0xff, 0xff, 0x07, 0x28, 0x02, 0x00, 0x0b];
  const start = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7f, 3, 2, 1, 0, 5, 3, 1, 0, 1];
  const body = [7, 5, 1, 1, 0x66, 0, 0, 10, code.length + 3, 1, code.length + 1, 0, ...code];
  const { instance } = await WebAssembly.instantiate(Uint8Array.from([...start, ...body]));
  assert.throws(() => (instance.exports.f as () => number)(), WebAssembly.RuntimeError);
}

/**
 * The code of the functions by which memory is given back, on Linux. Other threads are inside of them at any time, and
 * crash on their way out if it is changed.
 */
function codeOfSystem(): readonly string[] {
  if (process.platform !== "linux") return [];
  const koffi = createRequire(import.meta.url)("koffi");
  const library = koffi.load(
    readFileSync("/proc/self/maps", "latin1").match(/\/\S+\/(libc\.so|ld-musl)\S*/)![0],
  );
  return ["mmap", "munmap", "mremap", "madvise", "brk", "shmat", "shmdt"].map(
    (name) => `${name} ${Buffer.from(koffi.view(library.symbol(name), 16)).toString("hex")}`,
  );
}

async function hooks(): Promise<void> {
  assert.deepEqual(codeOfSystem(), codeBefore);
}

const codeBefore = codeOfSystem();
const backend = createCpuBackend({ threads: 1 });
await backend.init();
const communicator = await openCommunicator({ timeoutSeconds: 120 });
const laws = {
  reductions,
  rounding,
  integers,
  copies,
  large,
  buckets,
  messages,
  order,
  groups,
  traps,
  hooks,
};
for (const law of Object.values(laws)) {
  await law(communicator, backend);
  await communicator.barrier();
}
const { rank, size, localRank, engine } = communicator;
const late = (await communicator.split({ color: 0 }))!;
await communicator.dispose();
// MPI has ended: a call of it would end the process.
if (size > 1) await assert.rejects(late.barrier(), { code: "DISPOSED", message: /^barrier: / });
await late.dispose();
await communicator.dispose();
await assert.rejects(communicator.barrier(), { code: "DISPOSED" });
if (size > 1 || engine !== "none") await assert.rejects(openCommunicator(), { code: "UNSUPPORTED" });
const live = backend.memory().liveAllocations;
await backend.dispose();
console.log(JSON.stringify({ rank, size, localRank, engine, live, laws: Object.keys(laws) }));
