/** A headless Chromium for tests, controlled by its own protocol. It supports only what a page without script needs. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'

export const hasChromium = spawnSync('chromium', ['--version']).status === 0

const messageSchema = z.object({
  id: z.number().optional(),
  method: z.string().optional(),
  params: z.object({ entry: z.object({ text: z.string() }).optional() }).optional(),
  result: z.unknown().optional(),
})
const targetsSchema = z.array(z.object({ type: z.string(), webSocketDebuggerUrl: z.string() }))
const evaluatedSchema = z.object({ result: z.object({ value: z.unknown().optional() }) })

/** Keys by name: each has its code in browsers and its text. */
const keys = { Tab: [9, ''], Enter: [13, '\r'] } as const

export type Browser = {
  open(url: string): Promise<void>
  type(text: string): Promise<void>
  press(key: keyof typeof keys): Promise<void>
  evaluate(expression: string): Promise<unknown>
  /** Errors in the browser's console. */
  readonly log: readonly string[]
  stop(): Promise<void>
}

export async function startBrowser(): Promise<Browser> {
  const profile = mkdtempSync(join(tmpdir(), 'espalier-chromium-'))
  const flags = [
    '--headless=new',
    '--no-sandbox',
    '--disable-gpu',
    '--remote-debugging-port=0',
    `--user-data-dir=${profile}`,
  ]
  const child = spawn('chromium', [...flags, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const address = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stderr.setEncoding('utf8').on('data', piece => {
      text += piece
      const found = /ws:\/\/([\d.:]+)\//.exec(text)?.[1]
      if (found !== undefined) resolve(found)
    })
    child.once('exit', () => reject(new Error(`Chromium does not start: ${text}`)))
  })
  const targets = targetsSchema.parse(await (await fetch(`http://${address}/json/list`)).json())
  const page = targets.find(({ type }) => type === 'page')
  const socket = new WebSocket(page?.webSocketDebuggerUrl ?? '')
  await new Promise(resolve => socket.addEventListener('open', resolve))
  const waiting = new Map<number, (result: unknown) => void>()
  const log: string[] = []
  let lastId = 0
  socket.addEventListener('message', ({ data }) => {
    const { id, params, result } = messageSchema.parse(JSON.parse(String(data)))
    if (id !== undefined) waiting.get(id)?.(result)
    if (params?.entry !== undefined) log.push(params.entry.text)
  })
  const send = (method: string, params: object = {}) =>
    new Promise<unknown>(resolve => {
      waiting.set(++lastId, resolve)
      socket.send(JSON.stringify({ id: lastId, method, params }))
    })
  for (const domain of ['Page.enable', 'Log.enable']) await send(domain)
  await send('Emulation.setFocusEmulationEnabled', { enabled: true })
  const evaluate = async (expression: string) => {
    const { data } = evaluatedSchema.safeParse(await send('Runtime.evaluate', { expression }))
    return data?.result.value
  }
  return {
    log,
    evaluate,
    async open(url) {
      await send('Page.navigate', { url })
    },
    async type(text) {
      await send('Input.insertText', { text })
    },
    async press(key) {
      const [windowsVirtualKeyCode, text] = keys[key]
      const event = { key, code: key, windowsVirtualKeyCode }
      await send('Input.dispatchKeyEvent', { ...event, type: 'keyDown', text })
      await send('Input.dispatchKeyEvent', { ...event, type: 'keyUp' })
    },
    async stop() {
      socket.close()
      child.kill()
      await ended
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
