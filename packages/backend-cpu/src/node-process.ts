/**
 * Node's own modules, where this runs in Node or in something that provides them, without an import
 * that bundlers for pages would follow. In a file of its own because workers load nothing else.
 */
export const nodeProcess: NodeJS.Process | undefined =
  typeof process === "object" && process?.versions?.node !== undefined ? process : undefined;
