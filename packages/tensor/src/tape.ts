import { BackendError, type DType } from "@backplane/core";
import { full, zeros } from "./creation.js";
import { listed, refuse } from "./errors.js";
import { type Entry, type Recorder, recordingTo } from "./recorder.js";
import { rules } from "./rules/index.js";
import type { Rule, RuleContext } from "./rules/rule.js";
import { scope } from "./scope.js";
import { Tensor, wrap } from "./tensor.js";
import type { Value } from "./value.js";
import { sameShape } from "./view/shape.js";

/** Element types with derivatives. */
const isDifferentiable: Readonly<Record<DType, boolean>> = {
  ...{ f32: true, f16: true, bf16: true, i32: false, u32: false, u8: false },
};

interface Recorded extends Entry {
  readonly rule: Rule<never>;
  /** The values among inputs, output and saved to which the tape holds a reference. */
  readonly held: readonly Value[];
}

export interface GradientOptions {
  /** At the result. Default: 1, for a result of one element. */
  readonly gradient?: Tensor;
  /** Whether the tape can be used once more. Default: false: it frees what it holds on the way. */
  readonly keep?: boolean;
  readonly ready?: Ready;
}

/**
 * Called with each gradient as soon as it is final, and with its place among those that are returned, while the way back
 * goes on: what is enqueued here, such as a read, comes before the rest of the way back. The gradient is computed.
 */
export type Ready = (gradient: Tensor, index: number) => void;

/**
 * Records operations on tensors, and goes back over them for gradients:
 *
 *   using tape = new Tape([w, b]);
 *   const loss = tape.record(() => x.linear(w, b).sub(y).square().mean());
 *   const [atW, atB] = tape.gradients(loss);
 *
 * Only what depends on the watched tensors is recorded. A tensor that is used several times gets the sum of the gradients
 * of its uses. `grad` and `valueAndGrad` need no tape of one's own.
 */
export class Tape implements Recorder, Disposable {
  readonly #watched: Tensor[] = [];
  readonly #tracked = new Set<Value>();
  readonly #entries: Recorded[] = [];
  #isUsed = false;

  constructor(watched: readonly Tensor[] = []) {
    this.watch(...watched);
  }

  /** Number of operations recorded. */
  get length(): number {
    return this.#entries.length;
  }

  /** Records from now on what depends on these tensors, of a float type. */
  watch(...tensors: readonly Tensor[]): void {
    for (const [i, tensor] of tensors.entries()) {
      if (!isDifferentiable[tensor.dtype])
        refuse("watch", `tensors[${i}]`, `is ${String(tensor)}; allowed: floats, which have derivatives`);
      this.#watched.push(tensor);
      this.#tracked.add(tensor.value);
    }
  }

  /** Returns the result of a function, and records the operations in it. It must not be asynchronous. */
  record<Result>(body: () => Result): Result {
    this.#assertUsable("record");
    return recordingTo(this, body);
  }

  /**
   * Returns the gradients of a result at tensors: those that are watched, unless others are named. Of a tensor on which
   * the result does not depend, they are zeros. Throws `DISPOSED` if an earlier call used the tape up.
   */
  gradients(of: Tensor, at: readonly Tensor[] = this.#watched, options: GradientOptions = {}): Tensor[] {
    this.#assertUsable("gradients");
    const { keep = false, gradient, ready } = options;
    for (const [i, tensor] of at.entries())
      if (!this.#tracked.has(tensor.value))
        refuse(
          "gradients",
          `at[${i}]`,
          `${String(tensor)} is not on the tape; allowed: watched tensors, and results of theirs`,
        );
    if (gradient === undefined && of.size !== 1)
      refuse(
        "gradients",
        "of",
        `has shape ${listed(of.shape)}; allowed: one element, or the gradient there as an option`,
      );
    if (gradient !== undefined && (!sameShape(gradient.shape, of.shape) || gradient.dtype !== of.dtype))
      refuse("gradients", "gradient", `is ${String(gradient)}; allowed: ${of.dtype} ${listed(of.shape)}`);
    if (!keep) this.#isUsed = true;
    try {
      return scope(() => this.#goBack(of, at, { gradient, keep, ready }));
    } finally {
      if (!keep) this.#clear();
    }
  }

  /** Gives up what the tape holds. It cannot be used afterwards. Idempotent. */
  dispose(): void {
    this.#isUsed = true;
    this.#clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  // What operations call

  tracks(value: Value): boolean {
    return this.#tracked.has(value);
  }

  add(entry: Entry): void {
    const { name, inputs, output, saved, attributes } = entry;
    if (!isDifferentiable[output.dtype]) return;
    const rule = rules[name];
    if (rule === undefined)
      throw new BackendError(
        "UNSUPPORTED",
        `${name}: has no gradient; allowed: withoutRecording, or detach()`,
        {
          operation: name,
        },
      );
    for (const i of rule.constant)
      if (i < inputs.length && this.#tracked.has(inputs[i]!))
        refuse(
          name,
          `inputs[${i}]`,
          "is on the tape, and has no gradient; allowed: withoutRecording, or detach()",
          "UNSUPPORTED",
        );
    const kept = typeof rule.inputs === "function" ? rule.inputs(attributes as never) : rule.inputs;
    const held: Value[] = [];
    for (const i of kept) if (i < inputs.length) held.push(inputs[i]!.retain());
    if (rule.output) held.push(output.retain());
    for (const value of saved) held.push(value.retain());
    this.#tracked.add(output);
    this.#entries.push({ name, inputs, output, saved, attributes, rule, held });
  }

  #assertUsable(operation: string): void {
    if (!this.#isUsed) return;
    refuse(
      operation,
      "tape",
      "was used up by an earlier call of gradients, or disposed of (pass keep: true to the earlier call)",
      "DISPOSED",
    );
  }

  #clear(): void {
    for (const { held } of this.#entries) for (const value of held) value.release();
    this.#entries.length = 0;
    this.#tracked.clear();
  }

  #goBack(of: Tensor, at: readonly Tensor[], { gradient, keep, ready }: WayBack): Tensor[] {
    const found = new Map<Value, Tensor>();
    const wanted = new Set(at.map((tensor) => tensor.value));
    const results = new Array<Tensor | undefined>(at.length);
    const finish = (k: number): Tensor => {
      const tensor = at[k]!;
      const sum = found.get(tensor.value);
      // Its elements, and not an expression that keeps what it is computed from.
      if (sum === undefined) results[k] = zeros(tensor.backend, tensor.shape, tensor.dtype);
      else results[k] = results.includes(sum) ? wrap(sum.value.retain()) : sum.compute();
      return results[k];
    };
    const finalAt = ready === undefined ? undefined : this.#finalAt(at);
    found.set(
      of.value,
      gradient === undefined ? full(of.backend, of.shape, 1, of.dtype) : wrap(gradient.value.retain()),
    );
    for (let i = this.#entries.length - 1; i >= 0; i--) {
      const entry = this.#entries[i]!;
      const here = found.get(entry.output);
      if (here !== undefined) {
        if (!wanted.has(entry.output)) found.delete(entry.output);
        this.#addGradients(entry, here, found);
        if (!wanted.has(entry.output)) here.dispose();
      }
      for (const k of finalAt?.get(i) ?? []) ready!(finish(k), k);
      if (keep) continue;
      this.#entries.pop();
      for (const value of entry.held) value.release();
    }
    for (let k = 0; k < at.length; k++) {
      if (results[k] !== undefined) continue;
      const result = finish(k);
      ready?.(result, k);
    }
    return results as Tensor[];
  }

  /** Which gradients are final once the way back has passed an entry: the first one that uses a tensor is the last to add. */
  #finalAt(at: readonly Tensor[]): Map<number, number[]> {
    const first = new Map<Value, number>();
    for (const [i, { inputs }] of this.#entries.entries())
      for (const input of inputs) if (!first.has(input)) first.set(input, i);
    const final = new Map<number, number[]>();
    for (const [k, tensor] of at.entries()) {
      const i = first.get(tensor.value);
      if (i === undefined) continue;
      const list = final.get(i);
      if (list === undefined) final.set(i, [k]);
      else list.push(k);
    }
    return final;
  }

  #addGradients(entry: Recorded, here: Tensor, found: Map<Value, Tensor>): void {
    const { inputs, rule } = entry;
    const tracked = this.#tracked;
    const gradients = scope(() => rule.gradients(contextOf(entry, here, tracked) as RuleContext<never>));
    for (let i = 0; i < inputs.length; i++) {
      const gradient = gradients[i];
      if (gradient === undefined) continue;
      const input = inputs[i]!;
      // A rule may return the gradient that it got, or one of them twice.
      const own =
        gradient === here || gradients.indexOf(gradient) < i ? wrap(gradient.value.retain()) : gradient;
      const before = found.get(input);
      if (!tracked.has(input)) own.dispose();
      else if (before === undefined) found.set(input, own);
      else {
        found.set(input, before.add(own));
        before.dispose();
        own.dispose();
      }
    }
  }
}

interface WayBack {
  readonly gradient: Tensor | undefined;
  readonly keep: boolean;
  readonly ready: Ready | undefined;
}

function contextOf(entry: Recorded, gradient: Tensor, tracked: ReadonlySet<Value>): RuleContext {
  const { inputs, output, saved, attributes } = entry;
  return {
    gradient,
    attributes,
    count: inputs.length,
    savedCount: saved.length,
    input: (i) => wrap(inputs[i]!.retain()),
    output: () => wrap(output.retain()),
    saved: (i) => wrap(saved[i]!.retain()),
    shapeOf: (i) => inputs[i]!.shape,
    dtypeOf: (i) => inputs[i]!.dtype,
    needs: (i) => tracked.has(inputs[i]!),
  };
}

export interface ValueAndGradients {
  readonly value: Tensor;
  readonly gradients: Tensor[];
}

export interface At {
  /** The tensors at which gradients are wanted. Default: the arguments of the function. */
  readonly at?: readonly Tensor[];
  readonly ready?: Ready;
}

/**
 * Returns a function that returns the value of `f`, a tensor of one element, with its gradients at the arguments, or at
 * the tensors of `at`, such as the parameters of a model. It frees what f makes besides.
 *
 *   const step = valueAndGrad((x: Tensor, y: Tensor) => crossEntropy(model.forward(x), y), { at: parameters });
 *   const { value: loss, gradients } = step(images, labels);
 */
export function valueAndGrad<Arguments extends readonly unknown[]>(
  f: (...inputs: Arguments) => Tensor,
  { at, ready }: At = {},
): (...inputs: Arguments) => ValueAndGradients {
  return (...inputs) =>
    scope(() => {
      const watched = at ?? inputs.map((input, i) => argument(input, i));
      using tape = new Tape(watched);
      // A scope of its own: what the tape does not hold is freed before the way back.
      const value = tape.record(() => scope(() => f(...inputs)));
      if (!(value instanceof Tensor))
        refuse("valueAndGrad", "f", "does not return a tensor; allowed: one of one element");
      const options = ready === undefined ? {} : { ready };
      return { gradients: tape.gradients(value, watched, options), value: value.compute() };
    });
}

/** Like `valueAndGrad`, but returns the gradients alone. */
export function grad<Arguments extends readonly unknown[]>(
  f: (...inputs: Arguments) => Tensor,
  options: At = {},
): (...inputs: Arguments) => Tensor[] {
  const both = valueAndGrad(f, options);
  return (...inputs) => scope(() => both(...inputs).gradients);
}

function argument(input: unknown, i: number): Tensor {
  if (input instanceof Tensor) return input;
  return refuse(
    "valueAndGrad",
    `inputs[${i}]`,
    "is no tensor; allowed: tensors, or others if at names the tensors",
  );
}
