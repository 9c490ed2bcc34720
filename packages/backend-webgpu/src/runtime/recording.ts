import type { DeviceFeatures } from "../device/index.js";
import type { BufferRegion } from "./context.js";
import type { DeviceMemory, MemoryPool } from "./memory.js";
import { PARAMETER_BLOCK_BYTES, ParameterBlock } from "./parameters.js";
import type { PipelineCache } from "./pipelines.js";
import type { PreparedDispatch } from "./prepared.js";
import type { CommandQueue } from "./queue.js";
import { Recorder, type RecordingMeans } from "./recorder.js";
import { copyRegion, fillRegion } from "./transfers.js";

/** The dispatches that are enqueued together, and the memory that they use. */
interface Dispatches {
  readonly dispatches: PreparedDispatch[];
  readonly memories: Set<DeviceMemory>;
  readonly written: Set<DeviceMemory>;
}

interface Part extends Dispatches {
  /** Asks for the dispatches. */
  readonly enqueue: () => void;
}

/** What of the session a recording works with. */
export interface RecordingSession {
  readonly queue: CommandQueue;
  readonly pool: MemoryPool;
  readonly pipelines: PipelineCache;
}

/** Dispatches that are prepared once and enqueued many times. */
export class CommandRecording {
  /** Prepares, for the part that is being planned, what kernels ask of it. */
  readonly recorder: Recorder;
  readonly #queue: CommandQueue;
  readonly #scratch: Scratch;
  readonly #parts: Part[] = [];
  #target: Part = emptyPart(() => {});
  /** All parts together; undefined after a change. */
  #whole: Dispatches | undefined;

  /** `clearer` clears memory that is to read as zeros, once and not at each run. */
  constructor(features: DeviceFeatures, { queue, pool, pipelines }: RecordingSession, clearer: Recorder) {
    this.#queue = queue;
    this.#scratch = new Scratch(pool);
    /** The bindings of the dispatch that comes next. */
    let bound: readonly DeviceMemory[] = [];
    const capturing: RecordingMeans = {
      queue: {
        get batch() {
          return queue.batch;
        },
        parameters: new ParameterBlock(PARAMETER_BLOCK_BYTES),
        reserve() {},
        dispatch: (operation, pipeline, group, x, y, z, work) => {
          const { dispatches, memories, written } = this.#target;
          const parameters = capturing.queue.parameters.copy(pipeline.parameterWords);
          dispatches.push({ operation, pipeline, group, parameters, x, y, z, work });
          for (const [i, memory] of bound.entries()) {
            memories.add(memory);
            if (pipeline.program.bindings[i]!.access !== "read") written.add(memory);
          }
        },
      },
      pool: this.#scratch,
      pipelines: {
        get: (program) => pipelines.get(program),
        bindGroup(layout, memories, starts, count) {
          bound = memories.slice(0, count);
          return pipelines.bindGroup(layout, memories, starts, count);
        },
      },
    };
    this.recorder = new CapturingRecorder(features, capturing, clearer);
  }

  /** Part `place` becomes what the recorder is asked for during `enqueue`. */
  plan(place: number, enqueue: () => void): void {
    this.#target = emptyPart(enqueue);
    enqueue();
    this.#parts[place] = this.#target;
    this.#whole = undefined;
  }

  /**
   * Has `plan` plan the parts again whose scratch the device has refused meanwhile. So a run asks anew for the
   * memory, which there may be by now.
   */
  planRefused(plan: (place: number, enqueue: () => void) => void): void {
    const refused = this.#scratch.refused();
    if (refused.length === 0) return;
    for (const [place, { memories, enqueue }] of this.#parts.entries())
      if (refused.some((memory) => memories.has(memory))) plan(place, enqueue);
    this.#scratch.drop(refused);
  }

  run(): void {
    const { dispatches, memories, written } = this.#joined();
    for (const memory of written) memory.beforeWrite();
    this.#queue.replay(dispatches);
    // Some may have been submitted already; to take them for later ones does no harm.
    for (const memory of memories) memory.batch = this.#queue.batch;
  }

  dispose(): void {
    this.#parts.length = 0;
    this.#whole = undefined;
    this.#scratch.releaseAll();
  }

  #joined(): Dispatches {
    this.#whole ??= {
      dispatches: this.#parts.flatMap(({ dispatches }) => dispatches),
      memories: new Set(this.#parts.flatMap(({ memories }) => [...memories])),
      written: new Set(this.#parts.flatMap(({ written }) => [...written])),
    };
    return this.#whole;
  }
}

function emptyPart(enqueue: () => void): Part {
  return { dispatches: [], memories: new Set(), written: new Set(), enqueue };
}

/** Clears memory at once: what a recorder of a recording does is done again at each run. */
class CapturingRecorder extends Recorder {
  readonly #clearer: Recorder;

  constructor(features: DeviceFeatures, means: RecordingMeans, clearer: Recorder) {
    super(features, means.queue, means.pool, means.pipelines);
    this.#clearer = clearer;
  }

  protected override clear(memory: DeviceMemory): void {
    this.#clearer.run("record", () => this.#clearer.touch(memory));
  }

  // Unlike others these are not carried out now: until they are, the zeros may be read.

  override copy(destination: BufferRegion, source: BufferRegion): void {
    copyRegion(this, destination, source);
  }

  override fill(destination: BufferRegion, pattern: number): void {
    fillRegion(this, destination, pattern);
  }
}

/** Scratch that stays with its recording. Its dispatches follow one another, so all may use the same. */
class Scratch implements Pick<MemoryPool, "scratch" | "release"> {
  readonly #pool: MemoryPool;
  readonly #all = new Set<DeviceMemory>();
  readonly #idle = new Set<DeviceMemory>();

  constructor(pool: MemoryPool) {
    this.#pool = pool;
  }

  scratch(bytes: number): DeviceMemory {
    let best: DeviceMemory | undefined;
    for (const memory of this.#idle) {
      if (memory.capacity < bytes || memory.isRefused) continue;
      if (best === undefined || memory.capacity < best.capacity) best = memory;
    }
    const memory = best ?? this.#pool.acquire(bytes, false);
    this.#idle.delete(memory);
    this.#all.add(memory);
    memory.bytes = bytes;
    return memory;
  }

  /** Keeps the memory for the next one who asks. */
  release(memory: DeviceMemory): void {
    this.#idle.add(memory);
  }

  /** Returns what the device has refused. */
  refused(): readonly DeviceMemory[] {
    const refused: DeviceMemory[] = [];
    for (const memory of this.#all) if (memory.isRefused) refused.push(memory);
    return refused;
  }

  /** Gives memory back that no part uses any more. */
  drop(memories: Iterable<DeviceMemory>): void {
    for (const memory of memories) {
      this.#all.delete(memory);
      this.#idle.delete(memory);
      this.#pool.release(memory);
    }
  }

  releaseAll(): void {
    this.drop([...this.#all]);
  }
}
