/** The installation's own prompts: messages with `{{argument}}` placeholders. */
import type { Content } from '../core/content.ts'
import { CoreError } from '../core/errors.ts'
import type { Prompt } from '../core/prompt.ts'
import { beginningWith } from '../prompts/messages.ts'
import { filled, type PromptDefinition } from './schema.ts'

const longestValue = 10_000
const truths = ['true', 'false']

type Values = { readonly [name: string]: string }

/** @throws CoreError */
function valuesOf({ arguments: declared }: PromptDefinition, args: Values): Values {
  const refuse = (problem: string) => {
    throw new CoreError({ kind: 'invalid params', problem })
  }
  return Object.fromEntries(
    declared.map(({ name, required, type }) => {
      const value = args[name] ?? ''
      if (required && value.trim() === '') refuse(`${name} must not be empty`)
      if (value.length > longestValue) refuse(`${name} must have at most ${longestValue} characters`)
      if (type === 'boolean' && value !== '' && !truths.includes(value)) refuse(`${name} must be true or false`)
      return [name, value]
    }),
  )
}

function contentOf(content: PromptDefinition['messages'][number]['content'], values: Values): Content {
  switch (content.type) {
    case 'text':
      return { type: 'text', text: filled(content.text, values) }
    case 'image':
      return content
    case 'resource': {
      const { uri, text, mimeType } = content
      const resource = { uri: filled(uri, values), text: filled(text, values), ...(mimeType && { mimeType }) }
      return { type: 'resource', resource }
    }
  }
}

export function customPrompt(definition: PromptDefinition): Prompt {
  const { name, description = name, arguments: declared, messages } = definition
  return {
    definition: {
      name,
      description,
      arguments: declared.map(one => ({
        name: one.name,
        ...(one.description !== undefined && { description: one.description }),
        required: one.required,
      })),
    },
    async get(args) {
      const values = valuesOf(definition, args)
      const rendered = messages.map(({ role, content }) => ({ role, content: contentOf(content, values) }))
      return { kind: 'result', result: { description, messages: rendered } }
    },
    complete: async (argument, value) => {
      const type = declared.find(one => one.name === argument)?.type
      return type === 'boolean' ? beginningWith(truths, value) : []
    },
  }
}
