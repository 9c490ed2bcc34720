/**
 * Returns a JavaScript literal of plain data. Unlike JSON it has NaN, infinities and -0. Returns undefined if
 * the value is anything else, such as a list of commands.
 */
export function literal(value: unknown): string | undefined {
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (typeof value === "bigint") return `${value}n`;
  if (value === undefined || value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return joined("[", value.map(literal), "]");
  if (typeof value !== "object") return undefined;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Generated records have no prototype at all.
  if (prototype !== null && prototype !== Object.prototype) return undefined;
  const fields = Object.entries(value).map(([name, field]) => {
    const text = literal(field);
    return text === undefined
      ? undefined
      : `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name)}: ${text}`;
  });
  return joined("{", fields, "}");
}

function joined(before: string, parts: readonly (string | undefined)[], after: string): string | undefined {
  return parts.includes(undefined) ? undefined : `${before}${parts.join(", ")}${after}`;
}
