import { BackendError } from "@backplane/core";
import { expect } from "chai";
import { Heap } from "#src/heap.js";
import { defineKernel, type Kernel, type Launch } from "#src/kernels/kernel.js";
import { KernelLibrary } from "#src/kernels/library.js";
import { memoryKernels } from "#src/kernels/memory/memory.js";
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

/** Runs until the word is no longer 0. */
const gateKernel: Kernel<Record<"word", "i32">> = defineKernel({
  name: "gate",
  parameters: { word: "i32" },
  emit(f, { parameters: { word } }) {
    f.while(i32.eqz(i32.load(word)), () => {});
  },
});

export const trap: Kernel<Record<never, "i32">> = defineKernel({
  name: "trap",
  parameters: {},
  emit: (f) => f.unreachable(),
});

export interface Gate {
  readonly launch: Launch;
  open(): void;
}

export interface Rig {
  readonly queue: ThreadedQueue;
  readonly kernels: KernelLibrary;
  readonly heap: Heap;
  readonly memory: WebAssembly.Memory;
  readonly errors: BackendError[];
  readonly lost: string[];
  readonly handles: WorkerHandle[];
  readonly control: Int32Array;
  /** A command of so many chunks that goes on until `open` is called: for good, if it is not. */
  gate(chunks?: number): Gate;
  place(bytes: number): number;
  words(address: number, count: number): Uint32Array;
}

const maxPages = 512;

/**
 * `patience`: see `ThreadedQueueOptions`; `own` is the queue's. Without one it is over at once, and all workers are up
 * from the beginning.
 */
export async function openRig(
  threads: number,
  {
    stagingBytes = 65536,
    pages = maxPages,
    patience,
  }: { stagingBytes?: number; pages?: number; patience?: "own" | (() => Promise<void>) } = {},
): Promise<Rig> {
  const kernels = new KernelLibrary(
    [step, rotate, gateKernel, trap, ...memoryKernels],
    { initialPages: 1, maximumPages: pages, shared: true },
    { relaxedSimd: false },
  );
  const memory = new WebAssembly.Memory({ initial: 4, maximum: pages, shared: true });
  const heap = new Heap(memory, controlBytes, pages * 65536);
  const errors: BackendError[] = [];
  const lost: string[] = [];
  const handles: WorkerHandle[] = [];
  let allUp = () => {};
  const up = new Promise<void>((resolve) => {
    allUp = resolve;
  });
  let ready = 0;
  const queue = await ThreadedQueue.open({
    kernels,
    memory,
    heap,
    scratch: new Array<number>(threads).fill(0),
    events: { error: (error) => errors.push(error), lost: (reason) => lost.push(reason) },
    stagingBytes,
    ...(patience === "own" ? {} : { patience: patience ?? (() => Promise.resolve()) }),
    spawn(worker, listeners) {
      const handle = spawnWorker(worker, {
        ended: listeners.ended,
        message(text) {
          if (text === "ready" && ++ready === threads) allUp();
          listeners.message(text);
        },
      });
      handles.push(handle);
      return handle;
    },
  });
  const place = (bytes: number): number => {
    const { address } = heap.allocate(bytes);
    new Uint8Array(memory.buffer, address, bytes).fill(0);
    return address;
  };
  const gate = (chunks = 1): Gate => {
    const word = place(4);
    return {
      launch: gateKernel.launch({ word }, chunks),
      open: () => void Atomics.store(new Int32Array(memory.buffer), word / 4, 1),
    };
  };
  if (patience === undefined) {
    const { launch, open } = gate(2);
    queue.enqueue(launch);
    // Who waits for this keeps the process alive, and the workers for themselves do not.
    const done = queue.synchronize();
    await up;
    open();
    await done;
    expect(handles).to.have.length(threads);
  }
  return {
    ...{
      queue,
      kernels,
      heap,
      memory,
      control: new Int32Array(memory.buffer),
      errors,
      lost,
      handles,
      gate,
      place,
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
