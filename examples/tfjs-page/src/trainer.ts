import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import type { Digits } from "@backplane/example-digits/digits.js";
import { accuracyOf, batchSize, imagesOf, labelsOf, newModel } from "@backplane/example-tfjs/model.js";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { fetchDigits, testPath, trainingPath } from "./files.js";

/** A step of the training, and the backend that took it. */
export interface Step {
  /** From 1. */
  readonly number: number;
  readonly loss: number;
  readonly backend: string;
}

const names = ["webgpu", "cpu"] as const;

/** What the page works with: TensorFlow.js on a backend that can be swapped, the digits, and one training at a time. */
export class Trainer {
  readonly #registration: Registration;
  readonly #training: Digits;
  readonly #test: Digits;
  /** Why WebGPU cannot be had; undefined if it can. */
  readonly missing: string | undefined;
  #isTraining = false;
  #isStopped = false;
  /** Carries out a swap that was asked for, between two steps. */
  #swap: (() => Promise<void>) | undefined;
  /** Ends with the swap that was asked for. */
  #swapped: Promise<void> | undefined;

  private constructor(
    registration: Registration,
    training: Digits,
    test: Digits,
    missing: string | undefined,
  ) {
    this.#registration = registration;
    this.#training = training;
    this.#test = test;
    this.missing = missing;
  }

  /** Starts on the GPU if there is one; an adapter in software is no better than the CPU. */
  static async open(): Promise<Trainer> {
    const [training, test] = await Promise.all([fetchDigits(trainingPath), fetchDigits(testPath)]);
    const found = await webgpu().probe();
    const hasGpu = found.available && !found.device.software;
    const registration = await register(tf, hasGpu ? [webgpu(), cpu()] : [cpu(), webgpu()]);
    return new Trainer(registration, training, test, found.available ? undefined : found.reason);
  }

  /** The name of the backend in use. */
  get backend(): string {
    return this.#registration.current;
  }

  /** The name of the one that would take over. */
  get other(): string {
    return names.find((name) => name !== this.backend)!;
  }

  /** The device in use. */
  get device(): string {
    return this.#registration.capabilities.device.name;
  }

  /**
   * Trains a new model for so many steps, and returns the share of the test images that it recognizes, from 0 to 1.
   *
   * @param taken is called after each step, and awaited
   */
  async train(steps: number, taken: (step: Step) => void | Promise<void>): Promise<number> {
    this.#isTraining = true;
    this.#isStopped = false;
    try {
      return await this.#fit(steps, taken);
    } finally {
      this.#isTraining = false;
      // Asked for after the last step.
      await this.#swap?.();
    }
  }

  async #fit(steps: number, taken: (step: Step) => void | Promise<void>): Promise<number> {
    const count = Math.min(this.#training.count, steps * batchSize);
    const parts: { dispose(): unknown }[] = [];
    const kept = <Part extends { dispose(): unknown }>(part: Part): Part => {
      parts.unshift(part);
      return part;
    };
    let number = 0;
    try {
      const model = kept(newModel());
      kept(model.optimizer);
      const inputs = kept(imagesOf(this.#training, count));
      const targets = kept(labelsOf(this.#training, count));
      await model.fit(inputs, targets, {
        epochs: Math.ceil((steps * batchSize) / count),
        ...{ batchSize, shuffle: false, verbose: 0, yieldEvery: "never" },
        callbacks: {
          onBatchEnd: async (_, logs) => {
            number++;
            await taken({ number, loss: logs!.loss as number, backend: this.backend });
            if (number === steps || this.#isStopped) model.stopTraining = true;
            // The same tensors, variables and optimizer go on elsewhere.
            await this.#swap?.();
          },
        },
      });
      return await accuracyOf(model, this.#test, this.#test.count);
    } finally {
      for (const part of parts) part.dispose();
    }
  }

  /** Ends the training after the step that is under way. */
  stop(): void {
    this.#isStopped = true;
  }

  /**
   * Goes on with the other backend: at once, or after the step that is under way. If it fails, nothing changes. While one swap is
   * under way, no other is begun.
   */
  swap(): Promise<void> {
    this.#swapped ??= this.#nextSwap().finally(() => {
      this.#swapped = undefined;
    });
    return this.#swapped;
  }

  #nextSwap(): Promise<void> {
    const use = async () => {
      await this.#registration.use(this.other);
    };
    if (!this.#isTraining) return use();
    return new Promise((resolve, reject) => {
      this.#swap = () => {
        this.#swap = undefined;
        return use().then(resolve, reject);
      };
    });
  }
}
