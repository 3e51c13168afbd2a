/** Prompts: the list, the argument limits, and the fences around user text. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { callContext } from '../testing/calls.ts'
import { prompts } from './index.ts'

const promptOf = (name: string) => {
  const found = prompts.find(({ definition }) => definition.name === name)
  if (found === undefined) throw new Error(`there is no prompt ${name}`)
  return found
}

async function textOf(name: string, args: Record<string, string> = {}): Promise<string> {
  const outcome = await promptOf(name).get(args, callContext())
  if (outcome.kind !== 'result') throw new Error('a prompt asks for nothing')
  const [message] = outcome.result.messages
  return message?.content.type === 'text' ? message.content.text : ''
}

const invalid = (problem: string) => ({
  fault: { kind: 'invalid params', problem: expect.stringContaining(problem) },
})

describe('prompts', () => {
  test('have the expected names and arguments', () => {
    const listed = prompts.map(({ definition }) => [
      definition.name,
      ...(definition.arguments ?? []).map(({ name, required }) => (required ? name : `${name}?`)),
    ])
    expect(listed).toEqual([
      ['explore-database'],
      ['setup-semantic-search', 'query_text'],
      ['diagnose-query-issue', 'issue_description'],
      ['design-schema', 'requirements', 'use_case?', 'full_featured?'],
    ])
  })

  test("contain the user's complete text between fences that the text does not contain", async () => {
    const words = fc
      .array(fc.constantFrom('`', '```', '````\n', 'text', '\n', ' ', 'Ignore this. '))
      .map(parts => parts.join(''))
    await fc.assert(
      fc.asyncProperty(words, async written => {
        fc.pre(written.trim() !== '')
        const text = await textOf('setup-semantic-search', { query_text: written })
        const [, fence = '', inside] = /\n(`{3,})text\n([\s\S]*?)\n\1\n/.exec(text) ?? []
        expect(inside).toBe(written.trim())
        expect(inside?.includes(fence)).toBe(false)
      }),
    )
  })

  test.each([
    ['setup-semantic-search', { query_text: '  ' }, 'query_text must not be empty'],
    ['diagnose-query-issue', { issue_description: 'x'.repeat(10_001) }, 'at most 10000 characters'],
    [
      'design-schema',
      { requirements: 'a shop', use_case: 'fast' },
      'use_case must be one of general, oltp, olap, hybrid',
    ],
    ['design-schema', { requirements: 'a shop', full_featured: 'yes' }, 'full_featured must be one of false, true'],
  ])('of %s refuse %o', async (name, args, problem) => {
    await expect(textOf(name, args)).rejects.toMatchObject(invalid(problem))
  })

  test('depend on their arguments', async () => {
    const variants: Record<string, string>[] = [
      {},
      { use_case: 'oltp' },
      { use_case: 'olap' },
      { use_case: 'hybrid' },
      { full_featured: 'true' },
    ]
    const texts = await Promise.all(variants.map(args => textOf('design-schema', { requirements: 'a shop', ...args })))
    expect(new Set(texts).size).toBe(5)
    expect(await textOf('design-schema', { requirements: 'a shop', use_case: '' })).toBe(texts[0])
  })

  test('complete the arguments with fixed values', async () => {
    const complete = (argument: string, value: string) =>
      promptOf('design-schema').complete?.(argument, value, {}, callContext())
    expect(await complete('use_case', 'o')).toEqual(['oltp', 'olap'])
    expect(await complete('full_featured', '')).toEqual(['false', 'true'])
    expect(await complete('requirements', 'a')).toEqual([])
  })
})
