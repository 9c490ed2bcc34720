/** A file that is not what it should be; the message is for the person who named it. */
export class FileError extends Error {}
