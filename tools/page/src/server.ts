import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface PageServer {
  /** Such as `http://127.0.0.1:8080`. */
  readonly origin: string;
  /** Ends all connections too. */
  close(): Promise<void>;
}

/** What a server gives for an address. */
export interface Content {
  /** The end of a file name, such as ".js", which says what the body is. */
  readonly extension: string;
  readonly body: string | Uint8Array;
  /** Whether a page gets `SharedArrayBuffer`, which the threads of the CPU backend need. Default true. */
  readonly isIsolated?: boolean;
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".wasm": "application/wasm",
};

/** https://developer.mozilla.org/docs/Web/API/Window/crossOriginIsolated */
const ISOLATION = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

/**
 * Serves this machine only. Rejects if the port is taken.
 *
 * @param contentOf what an address has; the message of its error goes to the browser with status 404
 * @param port 0: any free one
 */
export async function startServer(
  contentOf: (url: URL) => Content | Promise<Content>,
  port = 0,
): Promise<PageServer> {
  const server = createServer(async (request, response) => {
    try {
      const { extension, body, isIsolated = true } = await contentOf(new URL(request.url!, "http://host"));
      response.writeHead(200, {
        "Content-Type": CONTENT_TYPES[extension] ?? "application/octet-stream",
        "Cache-Control": "no-store",
        ...(isIsolated ? ISOLATION : {}),
      });
      response.end(body);
    } catch (error) {
      response.writeHead(404, { "Content-Type": "text/plain" }).end((error as Error).message);
    }
  });
  await new Promise<void>((listening, failed) => {
    server.once("error", failed);
    server.listen(port, "127.0.0.1", listening);
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
