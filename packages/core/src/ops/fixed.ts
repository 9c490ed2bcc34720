import { argumentsRead, countRead } from "./reader.js";

/** Whether an object has the same properties for good: it is frozen, and none of them is computed. */
export function isFixed(object: object): boolean {
  const { prototype } = Array.isArray(object) ? Array : Object;
  if (!Object.isFrozen(object) || Object.getPrototypeOf(object) !== prototype) return false;
  return Object.values(Object.getOwnPropertyDescriptors(object)).every((property) => "value" in property);
}

/** What was found in arguments, and how many of them had a value. */
interface Finding<Arguments, Found> {
  readonly args: Arguments;
  readonly found: Found;
  readonly counted: number;
}

/**
 * What a function reads of arguments whose lists are fixed, to find it again for the same lists: programs repeat themselves, and to read
 * and check the geometry of a pooling takes a tenth of a small call.
 */
export class FixedFindings<Arguments extends object, Found> {
  /** By the one list. */
  readonly #known = new WeakMap<object, Finding<Arguments, Found>>();
  readonly #table: Readonly<Record<keyof Arguments, unknown>>;
  readonly #areSame: (a: Arguments, b: Arguments) => boolean;

  /** `table`: has the names of all arguments that `read` looks at. `areSame`: compares all but the list; a loop by names is slower. */
  constructor(
    table: Readonly<Record<keyof Arguments, unknown>>,
    areSame: (a: Arguments, b: Arguments) => boolean,
  ) {
    this.#table = table;
    this.#areSame = areSame;
  }

  /** Returns what `read` finds in arguments, or has found in the same before. `list`: one of them, which may be anything. */
  of(list: readonly number[], args: Arguments, read: (args: Arguments) => Found): Found {
    const known = this.#known.get(list);
    if (known !== undefined && this.#areSame(known.args, args)) {
      countRead(known.counted);
      return known.found;
    }
    // The first ones of a list stay: lists with many uses are not worth the search.
    const kept = known === undefined && Object.isFrozen(list) ? this.#fixedOf(list, args) : undefined;
    const before = argumentsRead();
    const found = read(kept ?? args);
    if (kept !== undefined) this.#known.set(list, { args: kept, found, counted: argumentsRead() - before });
    return found;
  }

  /**
   * Returns a copy of the arguments if all their lists are fixed. What is kept is read from it: of an object with getters,
   * the second look at an argument may find another value than the first.
   */
  #fixedOf(list: readonly number[], args: Arguments): Arguments | undefined {
    const fixed: Partial<Arguments> = {};
    let hasList = false;
    for (const name of Object.keys(this.#table) as (keyof Arguments)[]) {
      const value = args[name];
      if (typeof value === "object" && value !== null && !isFixed(value)) return undefined;
      fixed[name] = value;
      hasList ||= value === list;
    }
    return hasList ? (fixed as Arguments) : undefined;
  }
}
