import { BucketReduction, type Communicator } from "@backplane/collectives";
import type { ComputeBackend, SwapReport, SwitchableBackend } from "@backplane/core";
import {
  crossEntropy,
  type Layer,
  type Optimizer,
  scope,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";
import { type Batch, type Digits, gather, pixels } from "./data.js";
import type { Stretch } from "./plan.js";
import { shuffled } from "./random.js";
import { type Share, shareOf } from "./shares.js";

/** The loss of the batch of a step. */
export interface Reading {
  readonly step: number;
  readonly loss: number;
  readonly backend: string;
}

/** The work of one backend before the next took over. */
export interface StretchResult {
  readonly backend: string;
  readonly device: string;
  /** The device is a GPU that is emulated in software. */
  readonly software: boolean;
  readonly steps: number;
  readonly images: number;
  /** From the first step until the device was done with the last. */
  readonly seconds: number;
  readonly imagesPerSecond: number;
  /** Mean of the last readings, each the loss of one batch. */
  readonly loss: number;
}

export interface TrainingObserver {
  swapped(report: SwapReport): void;
  /** Called at each reading of the loss. Training continues when the promise resolves, and stops if it rejects. */
  progressed(reading: Reading, soFar: StretchResult): Promise<void>;
  finished(result: StretchResult): void;
}

export interface Training {
  readonly model: Layer;
  /** Has done `optimizer.steps` steps already. */
  readonly optimizer: Optimizer;
  readonly digits: Digits;
  /** Images per step. */
  readonly batch: number;
  readonly seed: number;
  /** The processes that train together; each computes a share of each batch. */
  readonly communicator: Communicator;
}

/** The linear layers have 0.9 MB of gradients: two buckets, of which the first is sent while the other is computed. */
const bucketBytes = 2 ** 17;

/** Reading the loss waits for the device, so it is read only now and then. */
const stepsPerReading = 10;
/** Readings that the loss of a stretch is the mean of: one batch alone says little. */
const readingsKept = 5;

/** Images as models take them: [count, 784], from 0 to 1. */
export function imagesOf(backend: ComputeBackend, { count, images }: Batch): Tensor {
  return tensor(backend, images, { shape: [count, pixels] })
    .cast("f32")
    .mul(1 / 255);
}

/**
 * Trains a model, switching from backend to backend as planned. Only the one call of `use` concerns the swap: model and
 * optimizer keep their tensors.
 */
export async function train(
  backend: SwitchableBackend,
  training: Training,
  stretches: readonly Stretch[],
  observer: TrainingObserver,
): Promise<void> {
  const { communicator } = training;
  const step = communicator.size === 1 ? singleStep(backend, training) : sharedStep(backend, training);
  const batches = shuffledBatches(training, training.optimizer.steps);
  for (const { backend: name, steps } of stretches) {
    if (backend.current !== name) observer.swapped(await backend.use(name));
    const meter = new Meter(backend);
    for (let i = 1; i <= steps; i++) {
      const batch = batches.next().value;
      using loss = await step.run(batch);
      meter.count(batch.count);
      if (i % stepsPerReading !== 0 && i !== steps) continue;
      if (communicator.size > 1) await communicator.allReduce(backend, { input: loss.operand, count: 1 });
      const reading = { step: training.optimizer.steps, loss: await loss.item(), backend: name };
      meter.read(reading.loss);
      await observer.progressed(reading, meter.result());
    }
    await backend.synchronize();
    observer.finished(meter.result());
  }
  step.dispose();
}

/** A step of training. */
interface Step {
  /** Returns the loss of the batch, or the part of it that the share of this process has. */
  run(batch: Batch): Tensor | Promise<Tensor>;
  dispose(): void;
}

function singleStep(backend: ComputeBackend, { model, optimizer }: Training): Step {
  const valueAndGradients = valueAndGrad(
    (batch: Batch) => crossEntropy(model.forward(imagesOf(backend, batch)), tensor(backend, batch.labels)),
    { at: optimizer.parameters },
  );
  const run = (batch: Batch): Tensor =>
    scope(() => {
      const { value, gradients } = valueAndGradients(batch);
      optimizer.step(gradients);
      return value;
    });
  return { run, dispose: () => {} };
}

/** Each process computes the gradients of its share; their sums are on the way while earlier layers are computed. */
function sharedStep(backend: ComputeBackend, { model, optimizer, communicator }: Training): Step {
  const counts = optimizer.parameters.map(({ size }) => size);
  const reduction = new BucketReduction(communicator, backend, counts, { bucketBytes });
  const valueAndGradients = valueAndGrad(
    ({ part, weight }: Share) =>
      crossEntropy(model.forward(imagesOf(backend, part)), tensor(backend, part.labels)).mul(weight),
    { at: optimizer.parameters, ready: (gradient, index) => reduction.add(index, gradient.operand) },
  );
  const run = async (batch: Batch): Promise<Tensor> => {
    const { value, gradients } = valueAndGradients(shareOf(batch, communicator));
    try {
      await reduction.finish();
      optimizer.step(gradients);
      return value;
    } catch (error) {
      value.dispose();
      throw error;
    } finally {
      for (const gradient of gradients) gradient.dispose();
    }
  };
  return { run, dispose: () => reduction.dispose() };
}

/** The batches from some step on. Each epoch has an order of its own. */
function* shuffledBatches({ digits, batch, seed }: Training, from: number): Generator<Batch, never> {
  const perEpoch = Math.ceil(digits.count / batch);
  let place = from % perEpoch;
  for (let epoch = Math.floor(from / perEpoch); ; epoch++) {
    const order = shuffled(digits.count, seed, epoch);
    for (; place < perEpoch; place++)
      yield gather(digits, order.subarray(place * batch, (place + 1) * batch));
    place = 0;
  }
}

/** Counts and times the work on the backend in use. */
class Meter {
  readonly #backend: SwitchableBackend;
  readonly #start = performance.now();
  readonly #losses: number[] = [];
  #steps = 0;
  #images = 0;

  constructor(backend: SwitchableBackend) {
    this.#backend = backend;
  }

  count(images: number): void {
    this.#steps += 1;
    this.#images += images;
  }

  read(loss: number): void {
    this.#losses.push(loss);
    if (this.#losses.length > readingsKept) this.#losses.shift();
  }

  result(): StretchResult {
    const seconds = (performance.now() - this.#start) / 1000;
    const { name, software } = this.#backend.capabilities.device;
    return {
      backend: this.#backend.current,
      device: name,
      software,
      steps: this.#steps,
      images: this.#images,
      seconds,
      imagesPerSecond: this.#images / seconds,
      loss: this.#losses.reduce((sum, loss) => sum + loss, 0) / this.#losses.length,
    };
  }
}
