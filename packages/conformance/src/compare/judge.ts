import {
  type DType,
  dtypeBytes,
  elementTypes,
  Fill,
  type Numerics,
  type OperationName,
} from "@backplane/core";
import { load, type Place, type ReferenceMemory } from "../elements.js";
import { testedOperations } from "../ops/index.js";
import type { FormulaMemory } from "../ops/operation.js";
import { type Finding, type Judgement, type Values, Worst } from "./finding.js";
import { type Patch, patchAt, placeOf } from "./patches.js";
import { boundOf, type Element, isOneStep, Specials } from "./special.js";
import { hasFormula, type Use, type Watched } from "./watched.js";

/** The bytes of a call's patches: before it, and after it on each backend. */
export interface Contents {
  readonly before: readonly ReferenceMemory[];
  readonly first: readonly ReferenceMemory[];
  /** Undefined if the second backend did not make the call. */
  readonly second: readonly ReferenceMemory[] | undefined;
}

/** Arguments in which -Infinity is ordinary, whatever a backend declares. */
const masks: readonly string[] = ["mask"];

/** Operations whose results may depend on an input in other ways than by its value: where NaN is placed, say. */
const ordering: readonly OperationName[] = ["sort", "scan"];

/** Compares what a call left with its exact result, within the bounds that `numerics` grant. */
export function judge(
  watched: Watched,
  patches: readonly Patch[],
  contents: Contents,
  numerics: Numerics,
): Judgement {
  const { call } = watched;
  const expected = contents.before.map((bytes) => bytes.slice());
  const worst = new Worst();
  const covered = contents.before.map((bytes) => new Uint8Array(bytes.length));
  if (call !== undefined && typeof call.operation === "object") {
    const { operation, args } = call as { readonly operation: never; readonly args: object };
    if (!hasFormula(operation)) return { finding: undefined, reason: "the suite has no formula for it" };
    const reason = new OperationJudge(watched, patches, contents, numerics).judge(
      operation,
      args,
      expected,
      covered,
      worst,
    );
    if (reason !== undefined) return { finding: undefined, reason };
  } else applyTo(expected, watched, patches);
  compareBytes(watched, patches, contents, expected, covered, worst);
  return { finding: worst.finding, reason: undefined };
}

/** Does on the host what a call does that only moves bytes. */
function applyTo(
  expected: readonly ReferenceMemory[],
  { call, uses }: Watched,
  patches: readonly Patch[],
): void {
  const [target, source] = uses.map((use) => bytesOf(expected, patches, use));
  if (call === undefined) target!.fill(0);
  else if (call.operation === "copyHtoD") target!.set(call.bytes);
  else if (call.operation === "copyDtoD") target!.set(source!);
  else if (call.operation === "fill") fillWith(target!, call.value, call.dtype);
}

function fillWith(target: Uint8Array, value: number, dtype: DType): void {
  const bits = elementTypes[dtype].toBits(value);
  for (let i = 0; i < target.length; i++) target[i] = bits >>> (8 * (i % dtypeBytes[dtype]));
}

function bytesOf(
  memory: readonly ReferenceMemory[],
  patches: readonly Patch[],
  { handle, start, length }: Use,
): ReferenceMemory {
  const index = patchAt(patches, handle, start);
  const from = start - patches[index]!.start;
  return memory[index]!.subarray(from, from + length);
}

/** Compares all bytes that are not elements of a result: they must be as expected. */
function compareBytes(
  { uses, call }: Watched,
  patches: readonly Patch[],
  { first, second }: Contents,
  expected: readonly ReferenceMemory[],
  covered: readonly Uint8Array[],
  worst: Worst,
): void {
  for (const [index, { handle, start, isWritten }] of patches.entries()) {
    if (!isWritten) continue;
    const [want, one, two] = [expected[index]!, first[index]!, second?.[index]];
    for (let i = 0; i < want.length; i++) {
      const isWrong = [one[i] !== want[i], two !== undefined && two[i] !== want[i]] as const;
      if (covered[index]![i] === 1 || !(isWrong[0] || isWrong[1])) continue;
      const use = nearest(uses, handle, start + i);
      worst.note(
        { argument: use.argument, element: start + i - use.start, dtype: isMoved(call) ? "u8" : undefined },
        [one[i]!, two?.[i]],
        { exact: want[i]!, allowed: 0 },
        isWrong,
      );
    }
  }
}

function isMoved(call: Watched["call"]): boolean {
  return typeof call?.operation !== "object";
}

/** Returns the operand that was written nearest to a place. */
function nearest(uses: readonly Use[], handle: number, place: number): Use {
  const distance = ({ start, length }: Use): number => Math.max(start - place, place - start - length, 0);
  const written = uses.filter((use) => use.isWritten && use.handle === handle);
  return written.reduce((best, use) => (distance(use) < distance(best) ? use : best));
}

interface Output {
  readonly region: Place;
  readonly dtype: DType;
  readonly isWritten: Uint8Array;
  readonly values: Float64Array;
  readonly tolerances: Float64Array;
}

/** Compares the results of an operation with its formula. */
class OperationJudge {
  readonly #watched: Watched;
  readonly #patches: readonly Patch[];
  readonly #contents: Contents;
  readonly #numerics: Numerics;
  readonly #specials: Specials;
  /** The operand of each region of the problem. */
  readonly #operands = new Map<Place, string>();

  constructor(watched: Watched, patches: readonly Patch[], contents: Contents, numerics: Numerics) {
    this.#watched = watched;
    this.#patches = patches;
    this.#contents = contents;
    this.#numerics = numerics;
    const { operation, args } = watched.call as {
      readonly operation: { readonly name: OperationName };
      readonly args: object;
    };
    this.#specials = new Specials(
      numerics,
      isOneStep(operation.name, (args as { readonly kind?: unknown }).kind),
    );
  }

  /** Returns why the results cannot be compared; undefined if they were. */
  judge(
    operation: { readonly name: OperationName },
    args: object,
    expected: readonly ReferenceMemory[],
    covered: readonly Uint8Array[],
    worst: Worst,
  ): string | undefined {
    const { evaluate, operation: definition } = testedOperations[operation.name];
    const problem = definition.resolve(args, {
      region: (argument, operand, elements, dtype, before = 0) => {
        const [handle, offset] = placeOf(operand);
        const size = dtypeBytes[dtype];
        const index = patchAt(this.#patches, handle, offset - before * size);
        const byteOffset = offset - before * size - this.#patches[index]!.start;
        const region: Place = { memory: expected[index]!, byteOffset, byteLength: elements * size };
        this.#operands.set(region, argument);
        return region;
      },
    });
    if (problem === undefined) return undefined;
    if (problem instanceof Fill) {
      const { memory, byteOffset, byteLength } = problem.region as Place;
      fillWith(memory.subarray(byteOffset, byteOffset + byteLength), problem.value, problem.dtype);
      return undefined;
    }
    for (const [name, value] of Object.entries(args))
      if (!definition.operands.includes(name) || "scalar" in Object(value))
        this.#specials.noteArguments(value);
    const factors = /^(prod|mul)$/.test(String((args as { readonly kind?: unknown }).kind));
    const inputs = new Map<Place, Float64Array<ArrayBuffer>>();
    const exact = this.#evaluated(evaluate as never, problem, (region, dtype) => {
      const values = load(region, dtype);
      // A gap between rows may hold anything, but then no result depends on it.
      this.#specials.note(values, dtype, masks.includes(this.#operands.get(region) ?? ""));
      if (factors) this.#specials.noteFactors(values);
      inputs.set(region, values);
      return values;
    });
    const { hasUnkept, hasZeroes } = this.#specials;
    if (hasUnkept && (ordering.includes(operation.name) || exact.some(({ dtype }) => isWhole(dtype))))
      return "its inputs have NaN or infinities, which not both backends keep";
    const evaluatedWith = (
      isNeeded: boolean,
      change: (values: Float64Array<ArrayBuffer>, dtype: DType) => Float64Array<ArrayBuffer>,
    ): readonly Output[] | undefined => {
      if (!isNeeded) return undefined;
      return this.#evaluated(evaluate as never, problem, (region, dtype) =>
        change(inputs.get(region) ?? load(region, dtype), dtype),
      );
    };
    const weakened = evaluatedWith(hasUnkept || hasZeroes, (values, dtype) =>
      this.#specials.weakened(values, dtype),
    );
    const probed = evaluatedWith(this.#specials.needsProbe, (values) => this.#specials.probed(values));
    for (const [index, output] of exact.entries())
      this.#compare([output, weakened?.[index], probed?.[index]], covered, worst);
    return undefined;
  }

  #evaluated(
    evaluate: (problem: object, memory: FormulaMemory, numerics: Numerics) => void,
    problem: object,
    read: FormulaMemory["read"],
  ): readonly Output[] {
    const outputs: Output[] = [];
    evaluate(
      problem,
      {
        read,
        write(region, dtype) {
          const count = region.byteLength / dtypeBytes[dtype];
          const { toBits, fromBits } = elementTypes[dtype];
          const output: Output = {
            ...{ region, dtype, isWritten: new Uint8Array(count) },
            ...{ values: new Float64Array(count), tolerances: new Float64Array(count) },
          };
          outputs.push(output);
          return (index, value, tolerance) => {
            output.isWritten[index] = 1;
            // Formulas leave it to the memory to keep the low bits of whole numbers.
            output.values[index] = isWhole(dtype) ? fromBits(toBits(value)) : value;
            output.tolerances[index] = tolerance;
          };
        },
        bytes: ({ memory, byteOffset, byteLength }) => memory.subarray(byteOffset, byteOffset + byteLength),
      },
      this.#numerics,
    );
    return outputs;
  }

  #compare(
    [output, weakened, probed]: readonly [Output, Output | undefined, Output | undefined],
    covered: readonly Uint8Array[],
    worst: Worst,
  ): void {
    const { region, dtype, isWritten, values } = output;
    const argument = this.#operands.get(region) ?? "output";
    const [use] = this.#watched.uses.filter((one) => one.argument === argument);
    const index = patchAt(this.#patches, use!.handle, use!.start);
    const { byteOffset, byteLength } = region;
    const results = ({ [index]: memory }: readonly ReferenceMemory[]) =>
      load({ memory: memory!, byteOffset, byteLength }, dtype);
    const first = results(this.#contents.first);
    const second = this.#contents.second && results(this.#contents.second);
    const size = dtypeBytes[dtype];
    for (let i = 0; i < values.length; i++) {
      if (isWritten[i] !== 1) continue;
      covered[index]!.fill(1, byteOffset + i * size, byteOffset + (i + 1) * size);
      const pair: Values = [first[i]!, second?.[i]];
      const at: Pick<Finding, "argument" | "element" | "dtype"> = { argument, element: i, dtype };
      const [other, probe] = [weakened && elementOf(weakened, i), probed && elementOf(probed, i)];
      const bound = boundOf(elementOf(output, i), other, probe, dtype, this.#numerics, this.#specials);
      if (bound === "free") continue;
      const isWrong = pair.map((value) => value !== undefined && !bound.isKept(value));
      if (isWrong[0] || isWrong[1]) worst.note(at, pair, bound, [isWrong[0]!, isWrong[1]!]);
    }
  }
}

function elementOf({ values, tolerances }: Output, i: number): Element {
  return [values[i]!, tolerances[i]!];
}

function isWhole(dtype: DType): boolean {
  return elementTypes[dtype].range !== undefined;
}
