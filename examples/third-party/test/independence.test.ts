import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

const folder = fileURLToPath(new URL("../src/", import.meta.url));

/** Names, numbers of handles, number formats and the class of errors: what a backend shares with all others. */
const allowed = [
  ...[
    "activations",
    "BackendError",
    "arithmeticKinds",
    "binaryKinds",
    "decodeFloat16",
    "dtypes",
    "elementTypes",
    "floatTypes",
    "float16ToBits",
    "float32ToBits",
  ],
  ...[
    "inexactBinaryKinds",
    "inexactUnaryKinds",
    "newHandle",
    "OperationMethods",
    "numberReduceKinds",
    "reduceKinds",
    "unaryKinds",
  ],
];

describe("the lazy backend", () => {
  it("is built on nothing of core but types, names, handles, number formats and the class of errors", () => {
    const used = new Set<string>();
    for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".ts")) continue;
      const source = readFileSync(`${folder}${file}`, "utf8");
      for (const [, names, from] of source.matchAll(/import \{([^}]*)\} from "([^"]*)"/g)) {
        if (from!.startsWith(".")) continue;
        assert.equal(from, "@backplane/core", file);
        for (const name of names!.split(",").map((text) => text.trim()))
          if (name !== "" && !name.startsWith("type ")) used.add(name);
      }
    }
    assert.isNotEmpty([...used]);
    assert.includeMembers(allowed, [...used]);
  });
});
