import { type DriverKernels, type DType, dtypeBytes, type Kernel, type Numerics } from "@backplane/core";
import { load, type Place, type ReferenceMemory, storages } from "../elements.js";
import { everyOperation } from "../ops/index.js";
import type { Evaluate, FormulaMemory } from "../ops/operation.js";
import { ReferenceDriver } from "../reference.js";

/** The outcome of the check of one result. */
export interface Verdict {
  /** Elements compared. */
  readonly checked: number;
  /** The first element that is wrong; undefined if none is. */
  readonly complaint: string | undefined;
  /** True if inputs had subnormal numbers, which the backend may read as zeros: nothing was compared. */
  readonly skipped: boolean;
}

/**
 * A backend that computes nothing new. Each operation receives the bytes that another backend computed,
 * compares them with the formula, and stores them. So the next operations start from the bytes that the
 * other backend really held, and no error counts twice.
 */
export class Oracle extends ReferenceDriver {
  override readonly name = "oracle";
  override readonly kernels: DriverKernels<ReferenceMemory> = Object.fromEntries(
    everyOperation.map((tested): [string, Kernel<never>] => [
      tested.operation.name,
      {
        supports: tested.supports,
        run: (problem) => {
          this.verdict = judged(tested.evaluate, problem, this.answers, this.#numerics);
        },
      },
    ]),
  );
  /** The outputs of the next operation as the other backend had them, by argument. */
  answers: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {};
  verdict: Verdict = { checked: 0, complaint: undefined, skipped: false };
  readonly #numerics: Numerics;

  /** `numerics` are those that the other backend declares. */
  constructor(numerics: Numerics) {
    super();
    this.#numerics = numerics;
  }
}

/**
 * Compares answers, by argument, with the outputs that the formula gives, and stores them there. Bytes that
 * the formula does not name must be unchanged.
 */
export function judged<Problem extends object>(
  evaluate: Evaluate<Problem>,
  problem: Problem,
  answers: Readonly<Record<string, Uint8Array<ArrayBuffer>>>,
  numerics: Numerics,
): Verdict {
  const outputs = Object.entries(answers).map(
    ([name, answer]) => new Answered(name, regionIn(problem, name), answer),
  );
  let skipped = false;
  const memory: FormulaMemory = {
    read(region, dtype) {
      const values = load(region, dtype);
      if (numerics.subnormals !== "kept") skipped ||= hasSubnormals(values, dtype);
      return values;
    },
    write(region, dtype) {
      const output = outputs.find((one) => one.region === region);
      if (output === undefined) throw new Error("the formula has an output to which there is no answer");
      return output.compare(dtype);
    },
  };
  evaluate(problem, memory, numerics);
  const complaint = outputs.map((output) => output.finish()).find((text) => text !== undefined);
  const checked = skipped ? 0 : outputs.reduce((sum, output) => sum + output.checked, 0);
  return { checked, complaint: skipped ? undefined : complaint, skipped };
}

/** An output of an operation, and what another backend wrote there. */
class Answered {
  readonly region: Place;
  /** Elements compared. */
  checked = 0;
  readonly #name: string;
  readonly #answer: Uint8Array<ArrayBuffer>;
  #complaint: string | undefined;
  /** By byte. */
  readonly #isWritten: Uint8Array<ArrayBuffer>;

  constructor(name: string, region: Place, answer: Uint8Array<ArrayBuffer>) {
    this.#name = name;
    this.region = region;
    this.#answer = answer;
    this.#isWritten = new Uint8Array(answer.length);
  }

  /** Returns a function that compares single elements. */
  compare(dtype: DType): (index: number, value: number, tolerance: number) => void {
    const { byteLength } = this.region;
    const got = load({ memory: this.#answer, byteOffset: 0, byteLength }, dtype);
    const bytes = dtypeBytes[dtype];
    return (index, value, tolerance) => {
      this.checked++;
      this.#isWritten.fill(1, index * bytes, (index + 1) * bytes);
      if (!(Math.abs(got[index]! - value) <= tolerance))
        this.#complaint ??=
          `element ${index} of ${got.length} of ${this.#name} is ${got[index]}, ` +
          `expected ${value} within ${tolerance}`;
    };
  }

  /** Stores the answer. Returns what is wrong with it. */
  finish(): string | undefined {
    const { memory, byteOffset } = this.region;
    for (let i = 0; i < this.#answer.length; i++)
      if (this.#isWritten[i] !== 1 && this.#answer[i] !== memory[byteOffset + i])
        this.#complaint ??= `byte ${i} of ${this.#answer.length} of ${this.#name} changed, which is no part of the result`;
    memory.set(this.#answer, byteOffset);
    return this.#complaint;
  }
}

/** Returns an operand of a problem, by its argument, or by argument and place in a list. */
function regionIn(problem: object, name: string): Place {
  const [argument = "", place] = name.split(/[[\]]/);
  const { [argument]: own, outputs } = problem as Readonly<Record<string, unknown>>;
  // The problem may be that of another operation, which has outputs in a list.
  const held = own ?? (outputs as readonly unknown[])[0];
  const one = place === undefined ? held : (held as readonly unknown[])[Number(place)];
  // Some operands have more than a place.
  return (one as { readonly region?: Place }).region ?? (one as Place);
}

function hasSubnormals(values: Float64Array, dtype: DType): boolean {
  const { smallestNormal } = storages[dtype];
  return values.some((value) => value !== 0 && Math.abs(value) < smallestNormal);
}
