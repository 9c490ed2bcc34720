import { existsSync, statSync } from "node:fs";
import { createRequire, type ResolveFnOutput, type ResolveHook } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/* Module hooks, so that Node.js loads the ES modules that TensorFlow.js publishes beside its CommonJS bundles: they import
   files without extensions, and no package.json calls them modules. */

const require = createRequire(import.meta.url);
const published = /[\\/]node_modules[\\/]@tensorflow[\\/][^\\/]+[\\/]dist[\\/]/;

/** Returns the file that an import without extension means. */
function fileOf(named: string): string | undefined {
  const candidates = [named, `${named}.js`, path.join(named, "index.js")];
  return candidates.find((candidate) => existsSync(candidate) && statSync(candidate).isFile());
}

function moduleOf(file: string): ResolveFnOutput {
  return { url: pathToFileURL(file).href, format: "module", shortCircuit: true };
}

export const resolve: ResolveHook = async (specifier, context, next) => {
  const { parentURL } = context;
  if (specifier.startsWith("@tensorflow/")) {
    const [scope, name, ...rest] = specifier.split("/");
    const root = path.dirname(require.resolve(`${scope}/${name}/package.json`));
    // The bare name too, so that the suite and the backend have one copy of core.
    const file = fileOf(path.join(root, rest.length > 0 ? rest.join("/") : "dist/index.js"));
    if (file !== undefined) return moduleOf(file);
  }
  if (specifier.startsWith(".") && parentURL?.startsWith("file:") === true) {
    const parent = fileURLToPath(parentURL);
    const file = published.test(parent) ? fileOf(path.resolve(path.dirname(parent), specifier)) : undefined;
    if (file !== undefined)
      return published.test(file) ? moduleOf(file) : next(pathToFileURL(file).href, context);
  }
  // Node.js does not see the names that seedrandom exports.
  if (specifier === "seedrandom" && parentURL?.startsWith("file:") === true) {
    const file = createRequire(parentURL).resolve("seedrandom");
    const source = [
      `import seedrandom from ${JSON.stringify(pathToFileURL(file).href)};`,
      "export default seedrandom;",
      "export const { alea, xor128, tychei, xorwow, xor4096, xorshift7 } = seedrandom;",
    ].join("\n");
    return {
      url: `data:text/javascript,${encodeURIComponent(source)}`,
      format: "module",
      shortCircuit: true,
    };
  }
  return next(specifier, context);
};
