/** HTTP as a service sees it: a request head, a body that can be read as it arrives, and the response. */
import type { HeaderList } from './headers.ts'

/** Headers by lower-case name; several values of one name are joined by commas. */
export type Headers = Readonly<Record<string, string | undefined>>

/** A request without its body. */
export type RequestHead = {
  readonly method: string
  /** As sent, still encoded, without the query string. */
  readonly path: string
  readonly query: string
  readonly headers: Headers
  /** The client's IP address if known; empty for a Unix socket. */
  readonly address: string
}

/** Consumes a body as it arrives, and returns how many of its bytes it retains. */
export type BodySink = { push(chunk: Buffer): void; readonly bufferedBytes: number }

/** A body that has not been read yet. */
export type IncomingBody = {
  /** In bytes, if the client sent it. */
  readonly length: number | undefined
  /**
   * Before this call, nothing is read or counted.
   * @throws HttpError if the body is too large or exceeds the memory budget; what the sink throws; the signal's reason
   */
  read(into: BodySink): Promise<void>
  /** Reserves memory for a response of this size until it has been fetched; false if the budget is exhausted. */
  reserve(bytes: number): boolean
}

/** The output of a streamed response. */
export type AnswerStream = {
  /**
   * Sends at once. A client that fetches nothing is disconnected, so that the buffered bytes are limited.
   * @returns false if the client is slower than the writer; a writer that can wait should then await `drained`
   */
  write(text: string | Buffer): boolean
  /**
   * Reserves memory for this many bytes in addition to those that already wait for a slow client; false if the budget
   * is exhausted.
   */
  allow(bytes: number): boolean
  /** Resolves when the client has fetched all written bytes or has disconnected. */
  drained(): Promise<void>
}

export type HttpResponse = {
  readonly status: number
  readonly statusText?: string
  readonly headers: HeaderList
  readonly body: Buffer | string | undefined
  /**
   * Writes the response body; the response ends when the promise resolves. The handler's signal is aborted if the
   * client disconnects.
   */
  readonly stream?: (out: AnswerStream) => Promise<void>
  /** Length of the stream in bytes, if known. */
  readonly streamLength?: number | undefined
}

/** Why the received bytes could not be parsed as a request. */
export type UnreadRequest = 'malformed' | 'head too large' | 'too slow'

/** The signal is aborted if the client disconnects. */
export type Handler = (head: RequestHead, body: IncomingBody, signal: AbortSignal) => Promise<HttpResponse>
