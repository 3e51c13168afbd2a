/**
 * Answers that come bit by bit. It promises that what is held for a client that reads slowly has a bound, that the writer learns of it, and
 * that an answer whose writer fails is cut off, so that no client takes it for whole.
 */
import type { ServerResponse } from 'node:http'
import type { AnswerStream } from './message.ts'

/** A client that has so much to fetch and is sent more is hung up on. */
const maximumPendingBytes = 1_048_576

/** Writes to a response whose head is written, and ends it. */
export async function writeStream(
  response: ServerResponse,
  stream: (out: AnswerStream) => Promise<void>,
): Promise<void> {
  response.flushHeaders()
  const waiting: (() => void)[] = []
  const wake = () => {
    for (const resolve of waiting.splice(0)) resolve()
  }
  response.on('drain', wake)
  response.on('close', wake)
  const out: AnswerStream = {
    write(text) {
      if (response.destroyed || response.writableEnded) return false
      if (response.writableLength > maximumPendingBytes) {
        response.destroy()
        return false
      }
      return response.write(text)
    },
    drained: () =>
      response.destroyed || !response.writableNeedDrain
        ? Promise.resolve()
        : new Promise<void>(resolve => waiting.push(resolve)),
  }
  try {
    await stream(out)
    response.end()
  } catch {
    response.destroy()
  }
}
