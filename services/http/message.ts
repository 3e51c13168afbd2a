/** HTTP from a service's view: a request head, a body that the service can read as it arrives, and the response. */
import type { HeaderList } from './headers.ts'

/** Headers by lower-case name, each name once. Node joins or drops repeated headers. */
export type Headers = Readonly<Record<string, string | undefined>>

/** A request without its body. */
export type RequestHead = {
  readonly method: string
  /** The path as the client sent it, still encoded, without the query string. */
  readonly path: string
  readonly query: string
  readonly headers: Headers
  /** The client's IP address, if known. Empty for a Unix socket. */
  readonly address: string
}

/** Consumes a body as it arrives. `bufferedBytes`: how many bytes it retains. */
export type BodySink = { push(chunk: Buffer): void; readonly bufferedBytes: number }

/** A body that has not been read yet. */
export type IncomingBody = {
  /** The length in bytes; undefined for a chunked body. */
  readonly length: number | undefined
  /**
   * Reads the body. Before this call, the server does not read the body, and reserves no memory for it.
   * @throws HttpError if the body is too large or exceeds the memory budget; what the sink throws; the signal's reason
   */
  read(into: BodySink): Promise<void>
  /**
   * Reserves memory for a response of this size until the client has read it. Returns false if the budget is exhausted.
   */
  reserve(bytes: number): boolean
}

/** The output of a streamed response. */
export type AnswerStream = {
  /**
   * Sends at once. If too many bytes wait for a slow client, the server disconnects the client.
   * @returns false if the client is slower than the writer; a writer that can wait should then await `drained`
   */
  write(text: string | Buffer): boolean
  /**
   * Reserves memory for this many bytes, in addition to the bytes that already wait for a slow client. Returns false if
   * the budget is exhausted.
   */
  allow(bytes: number): boolean
  /** Resolves when the writer can continue, or when the client has disconnected. */
  drained(): Promise<void>
}

export type HttpResponse = {
  readonly status: number
  readonly statusText?: string
  readonly headers: HeaderList
  readonly body: Buffer | string | undefined
  /**
   * Writes the response body. The response ends when the promise resolves. If the client disconnects, the server aborts
   * the handler's signal.
   */
  readonly stream?: (out: AnswerStream) => Promise<void>
  /** The stream's length in bytes, if known. */
  readonly streamLength?: number | undefined
}

/** Why the server could not parse the received bytes as a request. */
export type UnreadRequest = 'malformed' | 'head too large' | 'too slow'

/** The server aborts the signal if the client disconnects. */
export type Handler = (head: RequestHead, body: IncomingBody, signal: AbortSignal) => Promise<HttpResponse>
