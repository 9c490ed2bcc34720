import type { Accuracy, OperationName, Operations } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import type { OperationEntry } from "./operation.js";

/** The operations of core that a backend has: all of this package, or those that a program has chosen. */
export class KernelSet {
  /** What core knows about them. */
  readonly definitions: Partial<Operations>;
  /** Of these operations, and of others whose problems theirs are divided into. */
  readonly entries: readonly OperationEntry[];
  /** The accuracy that the operations declare. */
  readonly accuracy: Accuracy;

  constructor(definitions: Partial<Operations>, entries: readonly OperationEntry[]) {
    this.definitions = definitions;
    this.entries = entries;
    this.accuracy = Object.fromEntries(
      entries.flatMap(({ operation, accuracy }) =>
        accuracy === undefined || definitions[operation] === undefined ? [] : [[operation, accuracy]],
      ),
    );
  }

  /** Returns what the operations add to the description of a device. */
  detailsOf(features: DeviceFeatures): Readonly<Record<string, string>> {
    return Object.assign({}, ...this.entries.map((entry) => entry.details?.(features)));
  }

  /** Loads what the kernels need on such a device and most devices do not have. */
  async load(features: DeviceFeatures): Promise<void> {
    await Promise.all(this.entries.map((entry) => entry.load?.(features)));
  }

  /** Returns the entry whose kernel computes an operation. */
  entryOf(name: OperationName): OperationEntry {
    return this.entries.find(({ operation, alike }) => operation === name || alike?.includes(name))!;
  }
}
