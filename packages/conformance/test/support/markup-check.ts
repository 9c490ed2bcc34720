import { assert } from "chai";

const voids = new Set(["meta", "link", "br", "img", "input"]);
const tag = /^<\/?[a-z][a-z0-9]*(?: [a-zA-Z][\w:-]*(?:="[^"<>]*")?)*\/?>$/;

/** The tags of a page in order; fails where one is malformed, or is closed where it was not open. */
export function tagsOf(page: string): readonly string[] {
  const body = page.replace(/<style>[^<]*<\/style>/, "").replace("<!doctype html>", "");
  const open: string[] = [];
  const tags = body.match(/<[^>]*>?/g) ?? [];
  for (const text of tags) {
    assert.match(text, tag);
    const name = /[a-z0-9]+/.exec(text)![0];
    if (text.startsWith("</")) assert.equal(open.pop(), name, `in ${text}`);
    else if (!voids.has(name) && !text.endsWith("/>")) open.push(name);
  }
  assert.deepEqual(open, [], "tags that are never closed");
  return tags;
}

/** The same data with every text of it passed through a function, except where `keep` says so. */
export function withTexts<Value>(
  value: Value,
  change: (text: string) => string,
  keep: ReadonlySet<string>,
): Value {
  if (typeof value === "string") return change(value) as Value;
  if (Array.isArray(value)) return value.map((entry) => withTexts(entry, change, keep)) as Value;
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, entry]) => [
    key,
    keep.has(key) ? entry : withTexts(entry, change, keep),
  ]);
  return Object.fromEntries(entries) as Value;
}

/** Fields of a report that hold one of a few words, and so cannot hold anything else. */
export const closedFields: ReadonlySet<string> = new Set([
  ...[
    "kind",
    "status",
    "observed",
    "grade",
    "mode",
    "operation",
    "dtype",
    "dtypes",
    "promise",
    "before",
    "after",
  ],
]);
