/**
 * Sends requests to several addresses in turn, so that all have the same conditions. kubernetes-services.ts runs this
 * program in a pod. It reads the requests from standard input. For each address, it prints the times in ms to the first
 * byte and to the last byte of the body.
 */
import { Agent as HttpAgent, request as overHttp } from 'node:http'
import { request as overHttps, Agent as TlsAgent } from 'node:https'
import { text } from 'node:stream/consumers'

const { ways, method, headers, body, rounds, warmUp } = JSON.parse(await text(process.stdin))

/** One open connection for each address, so that the times do not include handshakes. */
const agents = {
  'http:': new HttpAgent({ keepAlive: true, maxSockets: 1 }),
  'https:': new TlsAgent({ keepAlive: true, maxSockets: 1 }),
}

function send({ url, servername, host }) {
  const { protocol } = new URL(url)
  const options = {
    ...{ method, servername, rejectUnauthorized: false, agent: agents[protocol] },
    headers: { ...headers, host, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
  }
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const sent = (protocol === 'http:' ? overHttp : overHttps)(url, options, answer => {
      let first
      answer.on('data', () => {
        first ??= performance.now() - began
      })
      answer.on('end', () => {
        if (answer.statusCode !== 200) reject(new Error(`${url} answered ${answer.statusCode}`))
        else resolve({ first, last: performance.now() - began, type: answer.headers['content-type'] })
      })
      answer.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const times = Object.fromEntries(Object.keys(ways).map(name => [name, { first: [], last: [] }]))
let type
for (let round = 0; round < warmUp + rounds; round++) {
  for (const [name, way] of Object.entries(ways)) {
    const answer = await send(way)
    type = answer.type
    if (round < warmUp) continue
    times[name].first.push(answer.first)
    times[name].last.push(answer.last)
  }
}
for (const agent of Object.values(agents)) agent.destroy()
process.stdout.write(JSON.stringify({ times, type }))
