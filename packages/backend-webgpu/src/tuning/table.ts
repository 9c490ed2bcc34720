import type { OperationName } from "@backplane/core";
import type { TunedVariants, TuningPlace } from "../device/index.js";
import { obstacleTo, type TuningData, type TuningEntry } from "./data.js";
import { shapeText, type TunableShapes } from "./shapes.js";

interface Choice {
  readonly entry: TuningEntry;
  readonly source: Source;
}

/** Data that were imported together; undefined after it has been told that they are used. */
interface Source {
  line: string | undefined;
}

/** The choices in use on one device. By exact shape: nothing is guessed for shapes in between. */
export class TunedTable implements TunedVariants {
  readonly #choices = new Map<string, Choice>();
  readonly #place: TuningPlace;
  readonly #log: (line: string) => void;
  readonly #shapes: TunableShapes;

  constructor(place: TuningPlace, log: (line: string) => void, shapes: TunableShapes) {
    this.#shapes = shapes;
    this.#place = place;
    this.#log = log;
  }

  get size(): number {
    return this.#choices.size;
  }

  get entries(): readonly TuningEntry[] {
    return Array.from(this.#choices.values(), ({ entry }) => entry);
  }

  variantFor(operation: OperationName, shape: unknown): string | undefined {
    const choice = this.#choices.get(this.#shapes.key(operation, shape as object));
    if (choice === undefined) return undefined;
    const { entry, source } = choice;
    if (source.line !== undefined) {
      this.#log(`${source.line}, first for ${operation} (${shapeText(entry.shape)})`);
      source.line = undefined;
    }
    return entry.variant;
  }

  /** Takes over data that were measured elsewhere, or says in the log why not. */
  importData(data: TuningData): void {
    const obstacle = obstacleTo(data, this.#place);
    if (obstacle !== undefined) this.#log(`webgpu: tuning ignored: ${obstacle}`);
    else this.#add(data.entries, `webgpu: uses tuning with ${data.entries.length} entries`);
  }

  /** Adds measurements made here. */
  add(entries: readonly TuningEntry[]): void {
    this.#add(entries, undefined);
  }

  #add(entries: readonly TuningEntry[], line: string | undefined): void {
    const source = { line };
    for (const entry of entries) {
      const { operation, shape } = entry;
      if (this.#shapes.areUnknown(operation)) continue;
      this.#choices.set(this.#shapes.key(operation, shape), { entry, source });
    }
  }
}

interface TableOptions {
  readonly tuning?: TuningData | readonly TuningData[];
  readonly log?: (line: string) => void;
}

/** Returns all that fits a device, of the imported tuning, and then of that found on this and other devices. */
export function tableOf(
  place: TuningPlace,
  { tuning = [], log = () => {} }: TableOptions,
  found: readonly TuningData[],
  shapes: TunableShapes,
): TunedTable {
  const table = new TunedTable(place, log, shapes);
  for (const data of [tuning].flat()) table.importData(data);
  for (const data of found) if (obstacleTo(data, place) === undefined) table.add(data.entries);
  return table;
}
