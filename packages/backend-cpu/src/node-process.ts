/**
 * Node's `process`, if this runs in Node or a compatible runtime. There is no import, because bundlers for
 * pages would follow it. It has a file of its own because workers load nothing else.
 */
export const nodeProcess: NodeJS.Process | undefined =
  typeof process === "object" && process?.versions?.node !== undefined ? process : undefined;
