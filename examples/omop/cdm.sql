-- A made-up hospital in the shape of OMOP's common data model: who the patients are, who
-- was in the intensive care unit (a cohort), what the model said, and who then died.
-- psql -v site=north -v seed=0.1 -v patients=6000 -f cdm.sql
CREATE SCHEMA :site;
SET search_path TO :site;
SELECT setseed(:seed);

CREATE TABLE person (
    person_id bigint PRIMARY KEY,
    year_of_birth integer NOT NULL,
    gender_concept_id integer NOT NULL            -- 8507 male, 8532 female
);
CREATE TABLE cohort (
    cohort_definition_id integer NOT NULL,        -- 1 intensive care, 2 died within 30 days
    subject_id bigint NOT NULL REFERENCES person,
    cohort_start_date date NOT NULL
);
CREATE TABLE prediction (                         -- one row a stay: the model's probability
    person_id bigint NOT NULL REFERENCES person,
    prediction_date date NOT NULL,
    model text NOT NULL,
    probability double precision                  -- NULL where the model had no input
);

INSERT INTO person
SELECT id, 1930 + floor(random() * 70), CASE WHEN random() < 0.5 THEN 8507 ELSE 8532 END
FROM generate_series(1, :patients) AS id;

-- Each patient has one to three stays, half a year apart.
INSERT INTO cohort
SELECT 1, person_id, date '2024-01-01' + (floor(random() * 90) + 180 * stay)::integer
FROM person, generate_series(0, 2) AS stay
WHERE stay = 0 OR random() < 0.3;

INSERT INTO prediction
SELECT subject_id, cohort_start_date, 'sepsis-demo',
       CASE WHEN random() < 0.01 THEN NULL
            ELSE 1 / (1 + exp(2.5 - 3 * random() - 2 * random())) END
FROM cohort;

INSERT INTO cohort
SELECT 2, person_id, prediction_date + 20
FROM prediction
WHERE random() < coalesce(probability, 0.2) ^ 1.3;

CREATE INDEX ON cohort (subject_id, cohort_definition_id);
ANALYZE person, cohort, prediction;
