/** The schema as the generator knows it: columns with their types, embeddings, and functions with their parameters. */

type Column = readonly [name: string, type: string]
type Embedding = readonly [text: string, target: string]
export type Relation = {
  readonly columns: readonly Column[]
  readonly embeddings: readonly Embedding[]
  readonly isWritten?: boolean
  /** To-many embeddings. */
  readonly toMany?: readonly string[]
  /** The columns that identify a row. The default is `id`, or all columns if there is no `id`. */
  readonly key?: readonly string[]
}

const columns = (text: string): Column[] =>
  text.split(' ').map(part => {
    const [name = '', type = 'text'] = part.split(':')
    return [name, type]
  })
const words = (text: string): string[] => text.split(' ').map(word => word.replaceAll('#', ' '))
/** A name's spaces are written as `#`. */
const embeddings = (text: string): Embedding[] =>
  text === ''
    ? []
    : text.split(' ').map(part => {
        const [shown = '', target = shown] = part.replaceAll('#', ' ').split('>')
        return [shown, target]
      })

export const relations: Readonly<Record<string, Relation>> = {
  kinds: {
    columns: columns(
      'id:int small:int big:int number:number real:number double:number flag:bool text limited padded key:uuid bytes:bytes date:date time:time ' +
        'stamp:date instant:date span:span address:net network:net plain:json doc:json numbers:ints words:texts range:range ranges:ranges ' +
        'period:period search:search mood:mood moods:texts short pair:pair bits:bits place:point code:code price:money page:xml days:days spans:spans pairs:pairs ' +
        'exact:exact mac:mac stamps:stamps',
    ),
    embeddings: [],
    isWritten: true,
  },
  clients: {
    columns: columns('id:int name city rank:int label'),
    toMany: words(
      'projects events rich_projects project_names notes project_counts "Odd#Notes" "Odd#Notes"!"client#id"',
    ),
    embeddings: embeddings(
      'projects people people!home>people events rich_projects>projects project_names notes client_projects project_counts "Odd#Notes">Odd#Notes "Odd#Notes"!"client#id">Odd#Notes',
    ),
  },
  projects: {
    columns: columns('id:int name client_id:int budget:number code:code info:json label'),
    toMany: words('people people!assignments assignments'),
    embeddings: embeddings(
      'clients client_id>clients clients!projects_client_id_fkey>clients clients!client_id>clients payer>clients briefs people people!assignments>people assignments client_projects',
    ),
  },
  briefs: {
    columns: columns('project_id:int summary'),
    embeddings: embeddings('projects project_id>projects projects!project_id>projects'),
  },
  people: {
    columns: columns('id:int name boss_id:int home:int born:date mood:mood'),
    toMany: words(
      'people people!boss_id people!people_boss_id_fkey people!friends projects assignments friends friends!one friends!other messages messages!message_sender messages!receiver',
    ),
    embeddings: embeddings(
      'people boss_id>people people!boss_id>people people!people_boss_id_fkey>people clients home>clients clients!home>clients projects assignments friends ' +
        'friends!one>friends friends!other>friends people!friends>people messages messages!message_sender>messages messages!receiver>messages',
    ),
  },
  assignments: {
    columns: columns('person_id:int project_id:int hours:int'),
    embeddings: embeddings('people projects person_id>people'),
    isWritten: true,
  },
  friends: { columns: columns('one:int other:int'), embeddings: embeddings('people one>people people!other>people') },
  messages: {
    columns: columns('id:int sender:int receiver:int text'),
    embeddings: embeddings(
      'sender>people receiver>people message_sender>people people!message_receiver>people people teller>people',
    ),
  },
  courses: { columns: columns('school:int number:int title'), embeddings: embeddings('lessons'), toMany: ['lessons'] },
  lessons: { columns: columns('id:int school:int number:int topic'), embeddings: embeddings('courses') },
  events: {
    columns: columns('id:int kind amount:int client_id:int'),
    key: ['id', 'kind'],
    embeddings: embeddings('clients client_id>clients'),
    isWritten: true,
  },
  'odd name,(x)': {
    columns: columns('"a#b":int "c.d" Ünï:int g-h:int').map(([name, type]) => [name.replace('#', ' '), type]),
    embeddings: [],
  },
  'Odd Notes': {
    columns: columns('Key:int "client#id":int "a;b" "x->y":json').map(([name, type]) => [
      name.replace('#', ' ').replace(';', ':'),
      type,
    ]),
    embeddings: embeddings('clients "client#id">clients clients!"client#id">clients'),
    isWritten: true,
  },
  loose: { columns: columns('a:int b'), embeddings: [], isWritten: true },
  secrets: { columns: columns('id:int owner content'), embeddings: [], isWritten: true },
  guarded: { columns: columns('id:int seen hidden'), embeddings: [], isWritten: true },
  project_names: {
    columns: columns('id:int title client_id:int'),
    toMany: words('assignments people'),
    embeddings: embeddings('clients client_id>clients briefs assignments people'),
  },
  client_projects: {
    columns: columns('client:int name project:int project_name'),
    toMany: words('projects people'),
    embeddings: embeddings('clients projects briefs people'),
  },
  project_counts: { columns: columns('client_id:int projects:int'), embeddings: embeddings('clients') },
  notes: {
    columns: columns('id:int title body pages:int twice:int mood:mood tags:texts doc:json code:code client_id:int'),
    embeddings: embeddings('clients client_id>clients'),
    isWritten: true,
  },
  keyed: { columns: columns('a:int b value'), embeddings: [], isWritten: true },
  always: { columns: columns('id:int name'), embeddings: [], isWritten: true },
  picky: { columns: columns('id:int name:trigger'), embeddings: [], isWritten: true },
  desk: { columns: columns('id:int title'), embeddings: [], isWritten: true },
  note_titles: { columns: columns('id:int title pages:int'), embeddings: [], isWritten: true },
  long_notes: { columns: columns('id:int title pages:int'), embeddings: [], isWritten: true },
  fixed: { columns: columns('id:int name'), embeddings: [], isWritten: true },
}

export type Callable = {
  readonly parameters: readonly Column[]
  /** The relation whose rows the function returns, or a relation with the same columns. */
  readonly returns?: string | Relation
  /** Whether the response body is one value. */
  readonly raw?: string
}

const plain = (text: string, returns?: Callable['returns']): Callable => ({
  parameters: text === '' ? [] : columns(text),
  ...(returns === undefined ? {} : { returns }),
})
const shaped = (text: string): Relation => ({ columns: columns(text), embeddings: [] })

export const functions: Readonly<Record<string, Callable>> = {
  add: plain('a:int b:int'),
  greet: plain('name mood:mood'),
  numbers: plain('n:small', shaped('numbers:int')),
  texts: plain('', shaped('texts')),
  all_projects: plain('', 'projects'),
  projects_over: plain('bound:number', 'projects'),
  one_project: plain('id:int', 'projects'),
  all_clients: plain('', 'clients'),
  table_of: plain('n:small', shaped('id:int label')),
  swap: plain('x:int y', shaped('x:int y')),
  one_out: plain('', shaped('x:int')),
  several: plain('', shaped('x:int y z:json')),
  some_pairs: plain('', shaped('x:int y')),
  one_pair: plain('', shaped('x:int y')),
  joined: plain('list:texts'),
  counted: plain('label list:ints'),
  moods: plain('list:texts', shaped('moods:mood')),
  pairs_of: plain('list:pairs'),
  range_of: plain('a:int b:int'),
  rows_of: plain('prefix', 'client_projects'),
  optional: plain('a:int b'),
  with_row: plain('client:client'),
  null_row: plain('', 'clients'),
  no_rows: plain('', 'clients'),
  json_args: plain('a:json b:json c:texts'),
  'Odd Func': plain('Näme:int a-b', shaped('Ö:int')),
  over: plain('a:int b:int'),
  unclear: plain('a:int'),
  nothing: plain(''),
  nothing_of: plain('a:int'),
  json_body: { parameters: [], raw: 'json' },
  jsonb_body: { parameters: [], raw: 'json' },
  text_body: { parameters: [], raw: 'text/plain' },
  bytes_body: { parameters: [], raw: 'application/octet-stream' },
  xml_body: { parameters: [], raw: 'text/xml' },
  set_of_record: plain(''),
  no_names: plain('a:int'),
  mixed_body: { parameters: columns('a:int'), raw: 'json' },
  echo: plain('doc:json list:ints at:date'),
  some_json: plain(''),
  many_json: plain('', shaped('many_json:json')),
  null_text: plain(''),
  an_array: plain(''),
  a_code: plain(''),
  a_record: plain(''),
  claims: plain(''),
  told: plain('name:told'),
  header: plain('name:header'),
  whoami: plain(''),
  respond: plain('headers:headers status:status'),
  fail: plain('state:state message:raised detail:detail hint'),
  note_it: plain('title', 'notes'),
  delete_notes: plain('', 'notes'),
  forbidden: plain(''),
  page: plain(''),
  download: plain(''),
  anything: plain(''),
}
