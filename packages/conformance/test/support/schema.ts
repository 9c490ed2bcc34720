/** As much of JSON Schema as the schema of reports uses. */
export interface Schema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
}

const known = new Set([
  ...["$schema", "$defs", "$ref", "title", "description", "format", "type", "const", "enum", "anyOf"],
  ...["properties", "required", "additionalProperties", "items", "minItems", "maxItems", "minimum"],
]);

/** Where a value is not as its schema says; empty where it is. Throws for words that are not known here. */
export function violations(root: Schema, value: unknown): string[] {
  const check = (schema: Schema, value: unknown, at: string): string[] => {
    for (const word of Object.keys(schema))
      if (!known.has(word)) throw new Error(`${at}: unknown word ${word}`);
    if (schema.$ref !== undefined) {
      const target = root.$defs?.[schema.$ref.replace("#/$defs/", "")];
      if (target === undefined) throw new Error(`${at}: there is no ${schema.$ref}`);
      return check(target, value, at);
    }
    if (schema.anyOf !== undefined) {
      const attempts = schema.anyOf.map((one) => check(one, value, at));
      return attempts.some((found) => found.length === 0) ? [] : attempts.flat();
    }
    if ("const" in schema && value !== schema.const) return [`${at} is not ${JSON.stringify(schema.const)}`];
    if (schema.enum !== undefined && !schema.enum.includes(value))
      return [`${at} is ${JSON.stringify(value)}, not one of ${JSON.stringify(schema.enum)}`];
    const types = typeof schema.type === "string" ? [schema.type] : schema.type;
    if (types !== undefined && !types.some((type) => isOf(type, value)))
      return [`${at} is ${JSON.stringify(value)}, not of type ${types.join(" or ")}`];
    if (typeof value === "number" && value < (schema.minimum ?? Number.NEGATIVE_INFINITY))
      return [`${at} is ${value}, less than ${schema.minimum}`];
    if (Array.isArray(value)) {
      if (value.length < (schema.minItems ?? 0) || value.length > (schema.maxItems ?? value.length))
        return [`${at} has ${value.length} entries`];
      return value.flatMap((entry, i) => check(schema.items ?? {}, entry, `${at}[${i}]`));
    }
    if (typeof value !== "object" || value === null) return [];
    const { properties = {}, required = [] } = schema;
    const fields = Object.entries(value).filter(([, field]) => field !== undefined);
    const names = fields.map(([name]) => name);
    return [
      ...required.filter((name) => !names.includes(name)).map((name) => `${at} has no ${name}`),
      ...(schema.additionalProperties === false
        ? names.filter((name) => !(name in properties)).map((name) => `${at} has ${name}`)
        : []),
      ...fields.flatMap(([name, field]) => check(properties[name] ?? {}, field, `${at}.${name}`)),
    ];
  };
  return check(root, value, "$");
}

function isOf(type: string, value: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "number") return typeof value === "number" && Number.isFinite(value);
  return type === "object"
    ? typeof value === "object" && value !== null && !Array.isArray(value)
    : typeof value === type;
}
