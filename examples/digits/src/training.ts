import type { SwapReport, SwitchableBackend } from "@backplane/core";
import { type Batch, Batcher, type Digits } from "./data.js";
import type { Momentum } from "./momentum.js";
import type { Network } from "./network.js";
import type { Stretch } from "./plan.js";
import type { Random } from "./random.js";

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
  progressed(soFar: StretchResult): Promise<void>;
  finished(result: StretchResult): void;
}

/** The rate falls evenly from this, set for 100 images a step, to almost zero at the last step. */
const firstRate = 0.1;
/** Reading the loss waits for the device, so it is read only now and then. */
const stepsPerReading = 10;
/** Readings that the loss of a stretch is the mean of: one batch alone says little. */
const readingsKept = 5;

/**
 * Trains a network, switching from backend to backend as planned. Only the one call of `use` concerns the
 * swap: network and optimiser keep their handles.
 */
export async function train(
  backend: SwitchableBackend,
  network: Network,
  optimiser: Momentum,
  digits: Digits,
  stretches: readonly Stretch[],
  random: Random,
  observer: TrainingObserver,
): Promise<void> {
  const batches = shuffledBatches(digits, network.batch, random);
  const total = stretches.reduce((sum, stretch) => sum + stretch.steps, 0);
  let step = 0;
  for (const { backend: name, steps } of stretches) {
    if (backend.current !== name) observer.swapped(await backend.use(name));
    const meter = new Meter(backend);
    for (let i = 1; i <= steps; i++) {
      const batch = batches.next().value;
      network.forward(batch);
      network.backward(batch, optimiser.blend(firstRate * (1 - step / total)));
      optimiser.step();
      step += 1;
      meter.count(batch.count);
      if (i % stepsPerReading !== 0 && i !== steps) continue;
      meter.read(await network.loss());
      await observer.progressed(meter.result());
    }
    await backend.synchronize();
    observer.finished(meter.result());
  }
}

function* shuffledBatches(digits: Digits, size: number, random: Random): Generator<Batch, never> {
  const batcher = new Batcher(digits, size);
  while (true) {
    const order = random.order(digits.count);
    for (let start = 0; start < order.length; start += size)
      yield batcher.gather(order.subarray(start, start + size));
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
