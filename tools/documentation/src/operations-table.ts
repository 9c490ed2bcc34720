import {
  type ComputeBackend,
  dtypes,
  type OperationName,
  operationNames,
  operations,
  type Question,
} from "@backplane/core";

/**
 * A Markdown table of the operations, with the element types in which each backend has them. Kinds for which
 * the answer is the same share a row.
 */
export function operationsTable(backends: readonly ComputeBackend[]): string {
  const rows = operationNames.flatMap((name) => rowsOf(backends, name));
  const header = ["operation", "kinds and options", ...backends.map((backend) => backend.name)];
  return [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function rowsOf(backends: readonly ComputeBackend[], name: OperationName): readonly (readonly string[])[] {
  const typesOf = (question: Question) =>
    backends.map((backend) =>
      dtypes.filter((dtype) => backend.supports(name, { ...question, dtype })).join(", "),
    );
  const { decisive, kinds } = operations[name];
  if (kinds === undefined) {
    const options = decisive.flatMap(
      ({ role, argument, values }): readonly (readonly [string, Question])[] => {
        if (role !== "option") return [];
        return [[argument, { [argument]: values?.[0] ?? true }]];
      },
    );
    const everywhere = typesOf({}).join("|");
    const had = options.filter(([, question]) => typesOf(question).join("|") === everywhere);
    return [[`\`${name}\``, had.map(([argument]) => argument).join(", "), ...typesOf({})]];
  }
  const groups = new Map<string, string[]>();
  for (const kind of kinds) {
    const types = typesOf({ kind }).map((list) => list || "none");
    const key = types.join(" | ");
    groups.set(key, [...(groups.get(key) ?? []), kind]);
  }
  return [...groups].map(([types, list]) => [`\`${name}\``, list.join(", "), ...types.split(" | ")]);
}
