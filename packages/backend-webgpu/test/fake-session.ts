import { assert } from "chai";
import { defaultLimits } from "#src/device/tiers.js";
import { MemoryPool } from "#src/runtime/memory.js";
import { PipelineCache } from "#src/runtime/pipelines.js";
import type { BatchLimits } from "#src/runtime/policy.js";
import { CommandQueue } from "#src/runtime/queue.js";
import { Recorder } from "#src/runtime/recorder.js";
import { CommandRecording } from "#src/runtime/recording.js";
import { windowBytes } from "#src/runtime/windows.js";
import { FakeDevice } from "./fake-device.js";

const features = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: defaultLimits,
};

export interface SessionOptions {
  readonly immediateBytes?: number;
  readonly limits?: BatchLimits | undefined;
  readonly poolBytes: number;
  /** Whether commands wait for pipelines that the device has not compiled yet. */
  readonly holds?: boolean;
}

/** A session on a device that computes nothing, at a time that stands still. */
export class FakeSession {
  readonly fake: FakeDevice = new FakeDevice();
  readonly queue: CommandQueue;
  readonly pool: MemoryPool;
  readonly recorder: Recorder;
  readonly recording: CommandRecording;
  /** The operations for which a pipeline was compiled at once, if commands wait. */
  readonly atOnce: string[] = [];
  releases = 0;

  constructor({ immediateBytes = 64, limits, poolBytes, holds = false }: SessionOptions) {
    const { device } = this.fake;
    const queue = new CommandQueue(device, {
      onFlush: () => pool.afterSubmit(),
      now: () => 0,
      compiled: (operation, pipeline) => {
        if (pipeline.pipeline === undefined) this.atOnce.push(operation);
        return pipelines.compiled(pipeline);
      },
      onRelease: () => this.releases++,
      ...(limits === undefined ? {} : { limits }),
    });
    const pipelines = new PipelineCache(device, {
      ...{ parameterBuffer: queue.parameterBuffer, immediateBytes, packsExactly: false },
      ...{ windowBytes: windowBytes(features), mayWait: () => holds && queue.mayHold },
    });
    const pool = new MemoryPool({
      ...{ device, maxBytes: 2 ** 30, poolBytes },
      currentBatch: () => queue.batch,
      onDestroy: (memory) => pipelines.forget(memory),
      currentOperation: () => "",
      onOutOfMemory: () => assert.fail("out of memory"),
    });
    this.queue = queue;
    this.pool = pool;
    this.recorder = new Recorder(features, queue, pool, pipelines);
    this.recording = new CommandRecording(features, { queue, pool, pipelines }, this.recorder);
  }
}
