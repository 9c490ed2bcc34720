import { operationNames } from "@backplane/core";
import { type Law, laws } from "#src/index.js";

const operations: readonly string[] = operationNames;

/** Laws on arithmetic, beside those of the operations. */
const onNumbers: readonly string[] = ["accuracy", "numerics", "reach"];

/**
 * Laws for wrappers, whose arithmetic is that of others: the first on each operation and element type, those on which bytes are
 * touched, and all laws of the contract around operations.
 */
const briefLaws: readonly Law[] = laws.filter((law, index) => {
  if (!operations.includes(law.topic)) return !onNumbers.includes(law.topic);
  const isFirst = laws.findIndex(({ topic, dtype }) => topic === law.topic && dtype === law.dtype) === index;
  return isFirst || law.name.includes("touches nothing");
});

/** Laws that make very many calls, or calls on many bytes, which take wrappers long that look at each byte. */
const long: readonly string[] = [
  "pending reads find their bytes though all they read is freed",
  "rounds of work leave nothing behind",
  "copyDtoHSync sees all calls before it, in whatever number",
  "trim gives pooled memory back, and leaves all else as it is",
  "thousands of dependent calls in one recording all happen, in order, in every run",
  "copyHtoD writes exactly the bytes given, at any offset and length",
  "8 MiB go there and back",
  "writes that wait for their turn disturb nothing, even where memory was freed under work",
];

/** Thousands of calls of each operation; those of one will do. */
const isOfMany = ({ name }: Law): boolean =>
  /uses its operands as they are at the call|rounds of calls leave nothing|calls that are under way/.test(
    name,
  ) && !name.startsWith("unary");

/** Without the longest, and without those that are alike for all operations. */
export const briefestLaws: readonly Law[] = briefLaws.filter(
  (law) =>
    !["errors", "supports", "slices"].includes(law.topic) &&
    !long.includes(law.name) &&
    law.dtype !== "f16" &&
    !isOfMany(law),
);

/** Without the longest. */
export const fewCallLaws: readonly Law[] = briefLaws.filter(
  (law) => !long.includes(law.name) && !isOfMany(law),
);
