import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("../../..", import.meta.url));

/** The Markdown files that are checked, relative to the root of the workspace. */
export function documents(): string[] {
  const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file.replaceAll("\\", "/")}`);
  const packages = ["packages", "examples", "tools"]
    .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}/README.md`))
    .filter((file) => existsSync(join(root, file)));
  return ["README.md", ...docs.sort(), "bench/README.md", ...packages.sort()];
}

export function read(document: string): string {
  return readFileSync(join(root, document), "utf8");
}
