import {
  type Code,
  concatenated,
  flatten,
  name,
  raw,
  sized,
  unsigned,
  type ValueType,
  valueTypeCodes,
  vector,
} from "./encoding.js";
import type { Value } from "./expressions.js";
import { FunctionBuilder, type FunctionReference, type Local, type Signature } from "./function.js";

/** The memory that a module imports as `env.memory`, in pages of 64 KiB. */
export interface MemoryImport {
  readonly initialPages: number;
  readonly maximumPages: number;
  /** Shared between threads. The memory given at instantiation must then be shared too. */
  readonly shared: boolean;
}

export interface FunctionOptions {
  /** Makes the function callable from outside under its name. Default: false. */
  readonly export?: boolean;
}

export interface ModuleOptions {
  /** Whether functions may use relaxed SIMD; see `FunctionBuilder.multiplyAdd`. Default: false. */
  readonly relaxedSimd?: boolean;
}

type Locals<Parameters extends Readonly<Record<string, ValueType>>> = {
  readonly [Name in keyof Parameters]: Local<Parameters[Name]>;
};

/**
 * Builds one WebAssembly module: an imported memory and functions. There is no static data, since each
 * instantiation on the same memory would write it again.
 */
export class ModuleBuilder {
  readonly #memory: MemoryImport;
  readonly #relaxedSimd: boolean;
  readonly #types: string[] = [];
  readonly #typeCodes: Code[] = [];
  readonly #functions: { readonly type: number; body: Uint8Array }[] = [];
  readonly #exports: Code[] = [];
  readonly #shared = new Map<string, FunctionReference>();

  constructor(memory: MemoryImport, { relaxedSimd = false }: ModuleOptions = {}) {
    this.#memory = memory;
    this.#relaxedSimd = relaxedSimd;
  }

  /** Adds a function without a result. */
  function<const Parameters extends Readonly<Record<string, ValueType>>>(
    label: string,
    parameters: Parameters,
    body: (f: FunctionBuilder, parameters: Locals<Parameters>) => void,
    options: FunctionOptions = {},
  ): FunctionReference {
    return this.#add(label, parameters, undefined, options, (f, locals) => {
      body(f, locals);
      return undefined;
    });
  }

  /** Adds a function that returns the value that `body` returns. */
  functionOf<Result extends ValueType, const Parameters extends Readonly<Record<string, ValueType>>>(
    result: Result,
    label: string,
    parameters: Parameters,
    body: (f: FunctionBuilder, parameters: Locals<Parameters>) => Value<Result>,
    options: FunctionOptions = {},
  ): FunctionReference {
    return this.#add(label, parameters, result, options, body);
  }

  /** Returns the function with this label, which several others may call. Builds it the first time. */
  shared(label: string, build: (label: string) => FunctionReference): FunctionReference {
    const known = this.#shared.get(label) ?? build(label);
    this.#shared.set(label, known);
    return known;
  }

  #add<Parameters extends Readonly<Record<string, ValueType>>>(
    label: string,
    parameters: Parameters,
    result: ValueType | undefined,
    options: FunctionOptions,
    body: (f: FunctionBuilder, parameters: Locals<Parameters>) => Value | undefined,
  ): FunctionReference {
    const signature: Signature = { parameters: Object.values(parameters), result };
    const entry = { type: this.#type(signature), body: new Uint8Array() };
    const index = this.#functions.push(entry) - 1;
    const builder = new FunctionBuilder(signature.parameters.length, this.#relaxedSimd);
    const locals = Object.fromEntries(
      Object.entries(parameters).map(([key, type], i) => [
        key,
        { type, index: i, code: raw(0x20) + unsigned(i) },
      ]),
    );
    // Flatten it now: the many small strings are garbage before the collector has to move them.
    entry.body = flatten(sized(builder.code(body(builder, locals as unknown as Locals<Parameters>))));
    if (options.export) this.#exports.push(name(label) + raw(0x00) + unsigned(index));
    return { index, signature };
  }

  toBytes(): Uint8Array<ArrayBuffer> {
    const { shared, initialPages, maximumPages } = this.#memory;
    const limits = raw(shared ? 0x03 : 0x01) + unsigned(initialPages) + unsigned(maximumPages);
    const section = (id: number, entries: readonly Code[]): Code => raw(id) + sized(vector(entries));
    const bodies = this.#functions.map(({ body }) => body);
    const count = unsigned(bodies.length);
    const bytes = bodies.reduce((sum, body) => sum + body.length, count.length);
    const beforeBodies = [
      raw(0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00),
      section(1, this.#typeCodes),
      section(2, [name("env") + name("memory") + raw(0x02) + limits]),
      section(
        3,
        this.#functions.map((entry) => unsigned(entry.type)),
      ),
      section(7, this.#exports),
      raw(10) + unsigned(bytes) + count,
    ];
    return concatenated([flatten(beforeBodies.join("")), ...bodies]);
  }

  #type({ parameters, result }: Signature): number {
    const codes = (types: readonly ValueType[]): Code =>
      vector(types.map((type) => raw(valueTypeCodes[type])));
    const key = `${parameters.join()}:${result ?? ""}`;
    const known = this.#types.indexOf(key);
    if (known >= 0) return known;
    this.#typeCodes.push(raw(0x60) + codes(parameters) + codes(result === undefined ? [] : [result]));
    return this.#types.push(key) - 1;
  }
}
