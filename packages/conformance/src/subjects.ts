import { BackendError, type ComputeBackend } from "@backplane/core";
import type { SuiteOptions } from "./options.js";

/** A backend under test. */
export interface Subject {
  readonly name: string;
  /** Returns a new instance before `init()`, independent of all others. */
  readonly create: () => ComputeBackend | Promise<ComputeBackend>;
  /**
   * Makes a backend lose its device, as a driver that crashes does. It receives an initialised backend that
   * `create` made. Without this function the laws on losses are skipped.
   */
  readonly loseDevice?: (backend: ComputeBackend) => void | Promise<void>;
  readonly options?: SuiteOptions;
}

/**
 * Returns the backends in a module: those of its default export, or of the one named. An export may be `{
 * name, create }`; a function that makes a backend or such an object (and is named after the module); or a
 * list of `{ name, create }` with different names. Beside `create` there may be a function `loseDevice`.
 * Throws, with the exports that there are, if it is none of these.
 */
export function subjectsIn(
  exported: Readonly<Record<string, unknown>>,
  module: string,
  exportName = "default",
): readonly Subject[] {
  const has = Object.hasOwn(exported, exportName);
  const subjects = has ? subjectsOf(exported[exportName], module) : undefined;
  if (subjects !== undefined) return subjects;
  const problem = has
    ? `the ${exportName} export of ${module} is no backend`
    : `${module} has no ${exportName === "default" ? "default export" : `export ${exportName}`}`;
  const suitable = Object.keys(exported).filter((key) => subjectsOf(exported[key], module) !== undefined);
  const hint = suitable.length > 0 ? `suitable are ${suitable.join(", ")}` : "no other export is one either";
  throw new Error(
    `${problem}; needed: { name, create }, a function that makes a backend or one of those, or a list of ` +
      "{ name, create }, " +
      `with or without a function loseDevice; ${hint}`,
  );
}

/**
 * Returns the backend that a function makes: it may return a backend, an object with `create`, such as a
 * provider, or a promise of either. Rejects with `INVALID_ARGUMENT`, which describes the value, if it is neither.
 */
export async function backendMadeBy(make: () => unknown): Promise<ComputeBackend> {
  const made = await make();
  if (isBackend(made)) return made;
  const { create } = (made ?? {}) as { readonly create?: unknown };
  const backend: unknown = typeof create === "function" ? await create.call(made) : made;
  if (isBackend(backend)) return backend;
  throw new BackendError(
    "INVALID_ARGUMENT",
    `create: it made ${shown(backend)}; needed: a backend, or a provider of one, { name, create }`,
    { operation: "create" },
  );
}

function isBackend(value: unknown): value is ComputeBackend {
  const { init, dispose, alloc } = (value ?? {}) as Partial<Record<keyof ComputeBackend, unknown>>;
  return [init, dispose, alloc].every((method) => typeof method === "function");
}

function shown(value: unknown): string {
  if (typeof value === "function") return `a function${value.name === "" ? "" : ` (${value.name})`}`;
  if (typeof value !== "object" || value === null) return String(value);
  const names = Object.keys(value);
  return `an object with ${names.length === 0 ? "nothing in it" : names.slice(0, 8).join(", ")}`;
}

/** Returns undefined if the value is none of the three allowed kinds. */
function subjectsOf(value: unknown, module: string): readonly Subject[] | undefined {
  if (typeof value === "function") {
    // A class cannot be called, and its constructor need not make a backend.
    if (/^class\b/.test(Function.prototype.toString.call(value))) return undefined;
    return [{ name: module, create: value as Subject["create"] }];
  }
  const list = Array.isArray(value) ? value : [value];
  const subjects = list.flatMap((entry) => subjectOf(entry) ?? []);
  const names = new Set(subjects.map(({ name }) => name));
  return list.length > 0 && names.size === list.length ? subjects : undefined;
}

function subjectOf(value: unknown): Subject | undefined {
  const { name, create, loseDevice } = (value ?? {}) as {
    readonly name?: unknown;
    readonly create?: () => ComputeBackend | Promise<ComputeBackend>;
    readonly loseDevice?: NonNullable<Subject["loseDevice"]>;
  };
  if (typeof name !== "string" || name === "" || typeof create !== "function") return undefined;
  const subject = { name, create: () => create.call(value) };
  if (loseDevice === undefined) return subject;
  if (typeof loseDevice !== "function") return undefined;
  return { ...subject, loseDevice: (backend) => loseDevice.call(value, backend) };
}
