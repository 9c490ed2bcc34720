import { listed, refuse } from "../errors.js";
import { Tensor } from "../tensor.js";
import { sameShape } from "../view/shape.js";

/**
 * The tensors of a model by name: those in its fields, and in the fields of what these hold, such as "layers.0.weight".
 * Names that begin with "_" are left out, and so is what is private. A tensor that several fields share is listed once,
 * under the name found first, so that an optimizer changes it once in a step.
 */
export function parametersOf(model: object): Map<string, Tensor> {
  const found = new Map<string, Tensor>();
  collect(model, "", found, new Set());
  return found;
}

function collect(object: object, prefix: string, found: Map<string, Tensor>, seen: Set<object>): void {
  seen.add(object);
  for (const [name, value] of Object.entries(object)) {
    if (name.startsWith("_") || typeof value !== "object" || value === null || seen.has(value)) continue;
    if (value instanceof Tensor) {
      seen.add(value);
      found.set(prefix + name, value);
    } else if (Array.isArray(value) || isOfModel(value)) collect(value, `${prefix}${name}.`, found, seen);
  }
}

/** Whether tensors are looked for in an object: in layers and plain objects, but not in a backend or an array of numbers. */
function isOfModel(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return (
    prototype === Object.prototype || typeof (value as { readonly forward?: unknown }).forward === "function"
  );
}

/** Replaces the parameters of a model by tensors of the same names, shapes and types. Throws if a name is missing or unknown. */
export function loadParameters(model: object, tensors: ReadonlyMap<string, Tensor>): void {
  const parameters = parametersOf(model);
  for (const name of tensors.keys())
    if (!parameters.has(name))
      refuse(
        "loadParameters",
        "tensors",
        `has ${name}, which the model has not; it has ${[...parameters.keys()].join(", ")}`,
      );
  for (const name of parameters.keys())
    if (!tensors.has(name)) refuse("loadParameters", "tensors", `lacks ${name}`);
  // Before anything has changed.
  for (const [name, { dtype, shape }] of parameters) {
    const given = tensors.get(name)!;
    if (given.dtype !== dtype || !sameShape(given.shape, shape))
      refuse("loadParameters", name, `is ${String(given)}; allowed: ${dtype} ${listed(shape)}`);
  }
  for (const [name, parameter] of parameters) parameter.assign(tensors.get(name)!);
}

/** Frees the parameters of a model. */
export function disposeParameters(model: object): void {
  for (const tensor of parametersOf(model).values()) tensor.dispose();
}
