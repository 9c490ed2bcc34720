import { type ComputeBackend, dtypes, operationNames, operations } from "@backplane/core";

/** A Markdown table of the element types that each backend takes, operation by operation. */
export function operationsTable(backends: readonly ComputeBackend[]): string {
  const rows = operationNames.map((name) => [
    `\`${name}\``,
    ...backends.map(
      (backend) => dtypes.filter((dtype) => backend.supports(name, dtype)).join(", ") || "none",
    ),
    kinds(backends, name),
  ]);
  const header = ["operation", ...backends.map((backend) => backend.name), "kinds"];
  return [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** The kinds that all of these backends have in every element type they take. */
function kinds(backends: readonly ComputeBackend[], name: (typeof operationNames)[number]): string {
  const everywhere = (kind: string): boolean =>
    backends.every((backend) =>
      dtypes.every((dtype) => !backend.supports(name, dtype) || backend.supports(name, dtype, kind)),
    );
  const { kinds: own = [], options } = operations[name];
  return [...own, ...options].filter(everywhere).join(", ");
}
