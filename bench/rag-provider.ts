/**
 * A test double of a provider, in a separate process. It responds at once: with embeddings of the questions in
 * bench/rag-rows.ts, and with one sentence to every chat. It prints its port.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { questions } from './rag-rows.ts'

const embeddings = new Map(
  questions(Number(process.argv[2])).map(({ text, vector }) => [
    text,
    JSON.stringify({ data: [{ index: 0, embedding: vector }], usage: { prompt_tokens: 8, total_tokens: 8 } }),
  ]),
)
const chat = JSON.stringify({
  choices: [{ message: { role: 'assistant', content: 'The documents say so.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 800, completion_tokens: 5, total_tokens: 805 },
})

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', text => {
    body += text
  })
  request.on('end', () => {
    const { input } = JSON.parse(body) as { input?: string | readonly [string] } // the server sends only these
    const text = typeof input === 'string' ? input : input?.[0]
    const answer = text === undefined ? chat : embeddings.get(text)
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(answer)
  })
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
