import { BackendError } from "@backplane/core";
import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { memoryKernels } from "#src/kernels/fill.js";
import { defineKernel, type Kernel, type Launch } from "#src/kernels/kernel.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { controlBytes } from "#src/queue/protocol.js";
import { ThreadedQueue } from "#src/queue/threaded.js";
import { spawnWorker, type WorkerHandle } from "#src/queue/workers.js";
import { i32 } from "#src/wasm/index.js";

/** word = word * factor + term */
export const step: Kernel<Record<"word" | "factor" | "term", "i32">> = defineKernel({
  name: "step",
  parameters: { word: "i32", factor: "i32", term: "i32" },
  emit(f, { parameters }) {
    const { word, factor, term } = parameters;
    f.store(word, i32.add(i32.mul(i32.load(word), factor), term));
  },
});

/** Chunk i: target[i] = source[(i + 1) % count] + 1, which is wrong if the command before is not over. */
export const rotate: Kernel<Record<"target" | "source" | "count", "i32">> = defineKernel({
  name: "rotate",
  parameters: { target: "i32", source: "i32", count: "i32" },
  emit(f, { parameters, chunk }) {
    const { target, source, count } = parameters;
    const next = i32.remU(i32.add(chunk, 1), count);
    const value = i32.load(i32.add(source, i32.shl(next, 2)));
    f.store(i32.add(target, i32.shl(chunk, 2)), i32.add(value, 1));
  },
});

/** Takes a while. */
export const delay: Kernel<Record<"rounds" | "word", "i32">> = defineKernel({
  name: "delay",
  parameters: { rounds: "i32", word: "i32" },
  emit(f, { parameters }) {
    const { rounds, word } = parameters;
    f.forRange(0, rounds, (i) => f.store(word, i32.xor(i32.load(word), i)));
  },
});

export const trap: Kernel<Record<never, "i32">> = defineKernel({
  name: "trap",
  parameters: {},
  emit: (f) => f.unreachable(),
});

export interface Rig {
  readonly queue: ThreadedQueue;
  readonly heap: Heap;
  readonly memory: WebAssembly.Memory;
  readonly errors: BackendError[];
  readonly lost: string[];
  readonly handles: WorkerHandle[];
  place(bytes: number): number;
  words(address: number, count: number): Uint32Array;
}

const maxPages = 512;

/** Work of about 20 ms for two, which makes all workers start. `word`: the address of a word. */
export const share = (word: number): Launch => delay.launch({ rounds: 20_000_000, word }, 2);

export async function openRig(
  threads: number,
  { stagingBytes = 65536, pages = maxPages, allUp = true } = {},
): Promise<Rig> {
  const kernels = new KernelLibrary(
    [step, rotate, delay, trap, ...memoryKernels],
    { initialPages: 1, maximumPages: pages, shared: true },
    { relaxedSimd: false },
  );
  const memory = new WebAssembly.Memory({ initial: 4, maximum: pages, shared: true });
  const heap = new Heap(memory, controlBytes, pages * 65536);
  const errors: BackendError[] = [];
  const lost: string[] = [];
  const handles: WorkerHandle[] = [];
  const up: Promise<void>[] = [];
  const queue = await ThreadedQueue.open({
    kernels,
    memory,
    heap,
    scratch: new Array<number>(threads).fill(0),
    events: { error: (error) => errors.push(error), lost: (reason) => lost.push(reason) },
    stagingBytes,
    spawn(worker, listeners) {
      up.push(
        new Promise((resolve) => {
          const handle = spawnWorker(worker, {
            ended: listeners.ended,
            message(text) {
              if (text === "ready") resolve();
              listeners.message(text);
            },
          });
          handles.push(handle);
        }),
      );
      return handles[worker]!;
    },
  });
  if (allUp) {
    const block = heap.allocate(4);
    queue.enqueue(share(block.address));
    await queue.synchronize();
    queue.release(block);
    expect(handles).to.have.length(threads);
    // Workers do not keep the process alive: something has to.
    const alive = setInterval(() => {}, 1000);
    await Promise.all(up).finally(() => clearInterval(alive));
  }
  return {
    ...{ queue, heap, memory, errors, lost, handles },
    place(bytes) {
      const { address } = heap.allocate(bytes);
      new Uint8Array(memory.buffer, address, bytes).fill(0);
      return address;
    },
    words: (address, count) => new Uint32Array(memory.buffer, address, count).slice(),
  };
}

export async function rejection(promise: Promise<unknown>): Promise<BackendError> {
  try {
    await promise;
  } catch (error) {
    expect(error).to.be.instanceOf(BackendError);
    return error as BackendError;
  }
  throw new Error("the promise resolved");
}
