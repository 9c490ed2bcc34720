import type { Program } from "../program/index.js";
import { Hold } from "./hold.js";
import { MAX_IMMEDIATE_BYTES } from "./immediates.js";
import { PARAMETER_BLOCK_BYTES, ParameterBlock, ParameterRing } from "./parameters.js";
import type { Pipeline } from "./pipelines.js";
import { type BatchLimits, BatchPolicy, batchLimits } from "./policy.js";
import type { PreparedDispatch } from "./prepared.js";
import type { DispatchObserver, QueueOptions } from "./queue-options.js";

/** Dispatches of a recording between two looks at the clock. */
const CLOCK_INTERVAL = 16;

/**
 * Records commands and submits them in batches. One compute pass stays open across operations, and sets
 * nothing that is set already.
 *
 * A batch is submitted when it is full (see `BatchPolicy`), when someone waits for it, and otherwise when the
 * caller's synchronous code ends. From the first command on whose pipeline is still being compiled, all are held back
 * without encoding them: so the device compiles pipelines side by side, and the caller does not wait. Whenever a pipeline is
 * there, the commands up to the next one that lacks its own are submitted. `batch` counts all as not submitted until
 * none is held back any more. Nothing else here can wait: a program that enqueues without ever awaiting leaves
 * the device ever further behind. That costs only the implementation's record of the commands; device memory
 * that is freed meanwhile is reused at once, and does not pile up.
 */
export class CommandQueue {
  /** The parameters of the next dispatch, to be filled in before it. */
  readonly parameters: ParameterBlock = new ParameterBlock(PARAMETER_BLOCK_BYTES);
  readonly #device: GPUDevice;
  readonly #ring: ParameterRing;
  readonly #policy: BatchPolicy;
  readonly #limits: BatchLimits;
  readonly #options: QueueOptions;
  readonly #now: () => number;
  readonly #flushUnlessEmpty = (): void => {
    this.#flushScheduled = false;
    if (this.#encoder !== undefined) this.flush();
  };
  #observer: DispatchObserver | undefined;
  #encoder: GPUCommandEncoder | undefined;
  /** The operations with commands in it, and that of the latest. */
  readonly #operations = new Set<string>();
  #operation = "";
  #pass: GPUComputePassEncoder | undefined;
  /** The state that is set in the open pass. */
  #pipeline: GPUComputePipeline | undefined;
  #buffers: GPUBindGroup | undefined;
  readonly #immediates = new Uint32Array(MAX_IMMEDIATE_BYTES / 4);
  #immediateWords = 0;
  /** Byte offset of the parameter block in `#buffers`, if that has one. */
  #block = 0;
  /** Passed as a list with its one entry replaced, which costs less than a new list or a typed array. */
  readonly #offsets: [number] = [0];
  #batch = 1;
  /** The time at the last look at the clock, which costs a tenth of a dispatch. */
  #latest = 0;
  #flushScheduled = false;
  #hold: Hold | undefined;
  #mayHold = true;

  constructor(device: GPUDevice, options: QueueOptions) {
    const { limits = batchLimits } = options;
    this.#device = device;
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#policy = new BatchPolicy(limits);
    this.#limits = limits;
    this.#ring = new ParameterRing(device, Math.max(limits.dispatches, limits.replayed));
  }

  /** The number of the batch being recorded. Everything marked with a lower number is submitted. */
  get batch(): number {
    return this.#batch;
  }

  /** The operations with commands that are recorded and not submitted; those that are held back excepted. */
  get operations(): readonly string[] {
    return [...this.#operations];
  }

  /** Has the parameters of pipelines that take them from a uniform block; see `ParameterRing`. */
  get parameterBuffer(): GPUBuffer {
    return this.#ring.buffer;
  }

  /** Bytes of device memory that belong to the queue itself. */
  get reservedBytes(): number {
    return this.#ring.reservedBytes;
  }

  /** Whether commands may be held back at this time. */
  get mayHold(): boolean {
    return this.#mayHold && this.#observer === undefined;
  }

  get isHolding(): boolean {
    return this.#hold !== undefined;
  }

  /** Resolves when the commands that are held back now have been submitted. */
  async released(): Promise<void> {
    await this.#hold?.released;
  }

  /** From now on holds nothing back: others see the same buffers, and rely on what was submitted. */
  neverHold(): void {
    this.#mayHold = false;
    this.release();
  }

  /** From now on gives every dispatch a pass of its own and reports it to `observer`; undefined stops that. */
  observe(observer: DispatchObserver | undefined): void {
    this.release();
    this.flush();
    this.#observer = observer;
  }

  /**
   * Must be called before a dispatch, with the milliseconds that it may take on a slow device. Submits first
   * if the batch should not hold it too, so that `batch` is the one that will.
   */
  reserve(work: number, pipeline: Pipeline): void {
    if (this.#hold !== undefined) return;
    const isMissing = pipeline.pipeline === undefined && this.#encoder !== undefined;
    if (!this.#policy.isEmpty) this.#latest = this.#now();
    if (isMissing || this.#policy.isDue(work, this.#latest)) this.flush();
  }

  /** Records a dispatch with the parameters that `parameters` holds. */
  dispatch(
    operation: string,
    pipeline: Pipeline,
    buffers: GPUBindGroup,
    x: number,
    y: number,
    z: number,
    work: number,
  ): void {
    if (this.#mustHold(operation, pipeline)) {
      const parameters = this.parameters.copy(pipeline.parameterWords);
      this.#holdBack({ operation, pipeline, group: buffers, parameters, x, y, z, work });
      return;
    }
    this.#encode(operation, pipeline, buffers, this.parameters, x, y, z);
    // `reserve` has just looked at the clock, unless this is the first.
    if (this.#policy.isEmpty) this.#latest = this.#now();
    if (this.#policy.add(work, this.#latest)) this.flush();
  }

  /** Records dispatches that were prepared before. */
  replay(commands: readonly PreparedDispatch[]): void {
    const { dispatches, replayed } = this.#limits;
    const first = this.#batch;
    let now = this.#now();
    for (let i = 0; i < commands.length; i++) {
      if (i % CLOCK_INTERVAL === 0) now = this.#now();
      const { operation, pipeline, group, parameters, x, y, z, work } = commands[i]!;
      if (this.#mustHold(operation, pipeline)) {
        if (this.#encoder !== undefined) this.flush();
        this.#holdBack(commands[i]!);
        continue;
      }
      if (this.#policy.isDue(work, now)) this.flush();
      this.#encode(operation, pipeline, group, parameters, x, y, z);
      // Observers have room for ordinary batches.
      const isLong = this.#batch !== first && this.#observer === undefined;
      if (this.#policy.add(work, now, isLong ? replayed : dispatches)) this.flush();
    }
  }

  /** Makes a write after the commands that are held back. `bytes`: of the copy of what it writes. */
  holdWrite(bytes: number, write: () => void): void {
    if (this.#hold!.addWrite(bytes, write)) this.release();
  }

  /** Submits what was held back. Pipelines that are not there yet are compiled at once. */
  release(): void {
    const hold = this.#hold;
    if (hold !== undefined) this.#releaseUpTo(hold, hold.length);
  }

  /** Submits what was held back, up to the first command whose pipeline is still being compiled. */
  #releaseReady(hold: Hold): void {
    const end = hold.readyEnd;
    if (end > hold.next) this.#releaseUpTo(hold, end);
  }

  #releaseUpTo(hold: Hold, end: number): void {
    while (hold.next < end) {
      const command = hold.take();
      if (typeof command === "function") {
        this.#submit();
        command();
        continue;
      }
      const { operation, pipeline, group, parameters, x, y, z, work } = command;
      const now = this.#now();
      if (this.#policy.isDue(work, now)) this.#submit();
      this.#options.compiled!(operation, pipeline);
      this.#encode(operation, pipeline, group, parameters, x, y, z);
      if (this.#policy.add(work, now)) this.#submit();
    }
    this.#submit();
    if (end < hold.length) return;
    this.#hold = undefined;
    this.#batch++;
    // Only now may buffers be destroyed that any of them uses.
    this.flush();
    hold.release();
    this.#options.onRelease?.();
  }

  /** Returns false if a command can be encoded now. */
  #mustHold(operation: string, pipeline: Pipeline): boolean {
    if (this.#hold !== undefined) return true;
    if (pipeline.pipeline !== undefined) return false;
    // One that was refused before anybody needed it is no longer being compiled: nobody would release the command.
    if (this.mayHold && pipeline.compiling !== undefined) return true;
    this.#options.compiled!(operation, pipeline);
    return false;
  }

  #holdBack(command: PreparedDispatch): void {
    this.#hold ??= new Hold();
    const hold = this.#hold;
    const isTooMuch = hold.add(command, () => {
      if (this.#hold === hold) this.#releaseReady(hold);
    });
    if (isTooMuch) this.release();
  }

  #encode(
    operation: string,
    { program, pipeline, layout, parameterWords }: Pipeline,
    buffers: GPUBindGroup,
    parameters: ParameterBlock,
    x: number,
    y: number,
    z: number,
  ): void {
    if (this.#observer !== undefined) this.#endPass();
    this.#note(operation);
    const pass = this.#pass ?? this.#beginPass(operation, program);
    if (this.#pipeline !== pipeline) {
      pass.setPipeline(pipeline!);
      this.#pipeline = pipeline;
    }
    if (layout.space === "uniform")
      this.#setGroup(pass, buffers, this.#ring.keep(parameters.words, parameterWords));
    else {
      if (this.#buffers !== buffers) {
        pass.setBindGroup(0, buffers);
        this.#buffers = buffers;
      }
      this.#setImmediates(pass, parameters, parameterWords);
    }
    // The shorter call costs the host 0.07 us less, of the 2 that a bind group and a dispatch cost.
    if (y === 1 && z === 1) pass.dispatchWorkgroups(x);
    else pass.dispatchWorkgroups(x, y, z);
  }

  /** For commands of this operation outside compute passes. */
  encoder(operation: string): GPUCommandEncoder {
    this.#endPass();
    this.#note(operation);
    return this.#openEncoder();
  }

  #openEncoder(): GPUCommandEncoder {
    if (this.#encoder === undefined) {
      this.#encoder = this.#device.createCommandEncoder();
      this.#scheduleFlush();
    }
    return this.#encoder;
  }

  /** Commands of this operation follow. */
  #note(operation: string): void {
    if (this.#operation === operation) return;
    this.#operation = operation;
    this.#operations.add(operation);
  }

  /**
   * Submits the recorded commands, unless they are held back. Returns a number that stands for everything submitted so far,
   * for `finished`.
   */
  flush(): number {
    this.#submit();
    const { latest } = this.#policy;
    if (this.#hold === undefined) this.#options.onFlush();
    return latest;
  }

  #submit(): void {
    const encoder = this.#encoder;
    if (encoder === undefined) return;
    this.#endPass();
    this.#observer?.beforeSubmit(encoder);
    const { operations } = this;
    const calls = (): void => {
      this.#ring.upload();
      this.#reset();
      this.#device.queue.submit([encoder.finish()]);
    };
    if (this.#options.together === undefined) calls();
    else this.#options.together(calls, operations);
    if (this.#hold === undefined) this.#batch++;
    this.#policy.submitted(this.#now());
    this.#observer?.afterSubmit();
  }

  /** A caller has waited for the work that `flush` gave this number: so the queue learns how fast the device is. */
  finished(name: number): void {
    this.#policy.finished(name, this.#now());
  }

  /** The device reported a fault: what was written for batches before may be missing. */
  distrustParameters(): void {
    this.#ring.distrust();
  }

  /** Drops the recorded commands and the buffer. The queue must not be used afterwards. */
  destroy(): void {
    this.#hold = undefined;
    this.#endPass();
    this.#reset();
    this.#ring.destroy();
  }

  #beginPass(operation: string, program: Program): GPUComputePassEncoder {
    const encoder = this.#openEncoder();
    const timestampWrites = this.#observer?.timestampWrites(operation, program);
    this.#pass =
      timestampWrites === undefined
        ? encoder.beginComputePass()
        : encoder.beginComputePass({ label: program.name, timestampWrites });
    return this.#pass;
  }

  /** Passes inherit nothing from earlier ones. */
  #endPass(): void {
    if (this.#pass === undefined) return;
    this.#pass.end();
    this.#pass = undefined;
    this.#pipeline = undefined;
    this.#buffers = undefined;
    this.#immediateWords = 0;
  }

  /** Immediates stay set from pipeline to pipeline, until the pass ends. */
  #setImmediates(pass: GPUComputePassEncoder, { words, bytes }: ParameterBlock, count: number): void {
    const set = this.#immediates;
    let isSet = count <= this.#immediateWords;
    for (let i = 0; i < count; i++) {
      if (set[i] === words[i]) continue;
      set[i] = words[i]!;
      isSet = false;
    }
    if (isSet) return;
    // Dawn takes the bytes of an ArrayBuffer in half the time that it needs for a typed array.
    pass.setImmediates(0, bytes, 0, 4 * count);
    if (count > this.#immediateWords) this.#immediateWords = count;
  }

  /** Sets a group with the parameter block that starts at this byte. */
  #setGroup(pass: GPUComputePassEncoder, buffers: GPUBindGroup, block: number): void {
    if (this.#buffers === buffers && this.#block === block) return;
    this.#buffers = buffers;
    this.#block = block;
    this.#offsets[0] = block;
    pass.setBindGroup(0, buffers, this.#offsets);
  }

  #reset(): void {
    this.#encoder = undefined;
    this.#operations.clear();
    this.#operation = "";
    this.#ring.clear();
  }

  /** Work starts when the caller's synchronous code ends, whether or not anything is awaited. */
  #scheduleFlush(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(this.#flushUnlessEmpty);
  }
}
