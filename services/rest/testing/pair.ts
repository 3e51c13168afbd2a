/**
 * `make pair`: starts PostgREST 12.0.2 and the service, each with its own copy of the differential test's database, and
 * runs both until it is interrupted. With a seed and a number, as the test reports them, it sends that request to both
 * servers. Then it prints the responses and the judge's result.
 */
import { stopSignal } from '../../../server/signals.ts'
import type { Answer } from '../../testing/client.ts'
import { Judge } from './differential/judge.ts'
import type { SentRequest } from './differential/request.ts'
import { translated } from './differential/rules/index.ts'
import { requestOf } from './differential/seed.ts'
import { startBoth } from './differential/servers.ts'
import { curl } from './differential/shrink.ts'
import { postgrestBinary } from './programs.ts'

const usage = `Usage: make pair ARGS='[SEED NUMBER] [KEY=VALUE ...]'

  SEED NUMBER  a request of the judge, sent to both
  KEY=VALUE    a key of the configuration of both, such as db-max-rows=2`

type Arguments = {
  readonly request: { readonly seed: number; readonly number: number } | undefined
  readonly settings: Readonly<Record<string, string>>
}

function parse(args: readonly string[]): Arguments | undefined {
  const settings = args.filter(argument => argument.includes('=')).map(pair => pair.split(/=(.*)/s, 2))
  const numbers = args.filter(argument => !argument.includes('=')).map(Number)
  const [seed, number] = numbers
  if (numbers.some(value => !Number.isSafeInteger(value) || value < 0)) return undefined
  if (numbers.length > 2 || numbers.length === 1) return undefined
  const request = seed === undefined || number === undefined ? undefined : { seed, number }
  return { request, settings: Object.fromEntries(settings) }
}

function show(name: string, { status, statusText, headers, text }: Answer): void {
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${String(value)}`)
  console.log([`\n${name}: ${status} ${statusText}`, ...lines, '', text].join('\n'))
}

type Both = Awaited<ReturnType<typeof startBoth>>

async function compare(both: Both, judge: Judge, wanted: SentRequest): Promise<void> {
  const sent = judge.stable(wanted) ?? wanted
  const old = translated(sent).sent
  console.log(`\n${curl(sent)}`)
  if (curl(old) !== curl(sent)) console.log(`to PostgREST, in PostgREST's form: ${curl(old)}`)
  const { theirs, ours } = await both.sendToBoth(old, sent)
  show('PostgREST', theirs)
  show('ours', ours)
  const found = await judge.differences(wanted)
  const lines = found.map(one => `${one.part}: PostgREST says ${one.theirs}, we say ${one.ours}`)
  console.log(lines.length === 0 ? '\nThe judge accepts our answer.' : ['\nThe judge refuses:', ...lines].join('\n'))
}

/** @returns the exit code */
async function main(args: readonly string[]): Promise<number> {
  const parsed = parse(args)
  if (parsed === undefined) {
    console.error(usage)
    return 2
  }
  const binary = postgrestBinary()
  if (binary === undefined) {
    console.error('npm has no PostgREST for this machine, or npm cannot reach its registry')
    return 1
  }
  const stopped = stopSignal()
  const both = await startBoth(binary, parsed.settings)
  try {
    console.log(`PostgREST 12.0.2: URL=http://127.0.0.1:${both.ports.theirs}`)
    console.log(`ours:             URL=http://127.0.0.1:${both.ports.ours}`)
    const { request } = parsed
    if (request !== undefined) {
      await compare(
        both,
        new Judge(both, 'db-max-rows' in parsed.settings),
        requestOf(request.seed, request.number).sent,
      )
    }
    console.log('\nBoth servers run until you press Ctrl-C.')
    await stopped
  } finally {
    await both.stop()
  }
  return 0
}

process.exitCode = await main(process.argv.slice(2))
