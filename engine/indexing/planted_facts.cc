#include "engine/indexing/planted_facts.h"

namespace lectern {
namespace {

constexpr PlantedFact kFacts[] = {
    {"The orchestra hired a new conductor from Vienna.", "From where did the new conductor come?"},
    {"Version 4 of the program can no longer read files of version 1.",
     "Which files are too old for version 4?"},
    {"To reset the meter, hold the left button for four seconds.",
     "How is the meter set back to zero?"},
    {"Reports are sent to the printer with the command spool.", "Which command prints a report?"},
    {"The copper roof of the town hall was replaced after the storm of 1987.",
     "Why did the town hall get a new roof?"},
    {"Orders of more than ten chairs get a discount of five percent.",
     "How much cheaper is it to buy many chairs?"},
    {"Ms. Okafor has been in charge of the archive since 2011.",
     "Who is responsible for the archive?"},
    {"The museum's oldest coin was found by a farmer in Norden.",
     "Who discovered the oldest coin?"},
    {"The mountain hut has neither electricity nor running water.",
     "What is missing in the hut in the mountains?"},
    {"The ink fades unless it is kept away from sunlight.", "What must the ink be protected from?"},
    {"The film is shown in French with English subtitles.",
     "In what language do the actors speak?"},
    {"The southern wing was built of brick, the rest of stone.",
     "What material is the part of the building in the south made of?"},
    {"The soup is thickened with ground almonds instead of flour.", "What makes the soup thick?"},
    {"Beekeepers move their hives to the heath in August.",
     "Where do the bees stay in late summer?"},
    {"Patients who miss two appointments are taken off the list.",
     "When is somebody removed from the waiting list?"},
    {"The tower clock is wound by hand once a week.", "How is the clock in the tower kept going?"},
    {"The cat of the station master is called Pepper.",
     "What is the name of the animal at the station?"},
    {"The red wire carries the signal, and the blue wire is earth.", "Which wire is the ground?"},
    {"The lighthouse was painted white to be seen against the forest.",
     "Why does the lighthouse have its colour?"},
    {"The committee has nine members, four of whom are elected.",
     "How many people sit on the committee?"},
    {"Invoices have to be paid within thirty days.", "How soon is a bill due?"},
    {"The pump must be oiled after every two hundred hours of use.",
     "How often does the pump need oil?"},
    {"Children under six travel free of charge.", "Up to what age is no ticket needed?"},
    {"Each apprentice spends six weeks in the workshop at Harlow.",
     "Where do apprentices go for six weeks?"},
    {"The backup server is named heron and stands in the cellar.",
     "What is the name of the machine that keeps the backups?"},
    {"The ferry to the island takes forty minutes when the sea is calm.",
     "How long is the crossing to the island?"},
    {"The emergency exit of the laboratory leads to the courtyard.",
     "Where does one come out when leaving the lab in an emergency?"},
    {"The survey of 1904 counted 312 houses in the valley.",
     "How many houses stood in the valley at the beginning of the century?"},
    {"The default port of the service is 7070, unless the file says otherwise.",
     "On which port does the service listen if nothing is configured?"},
    {"Mr. Lindqvist donated his collection of maps to the library.",
     "What did the library receive from Lindqvist?"},
    {"Wool is washed in cold water, so that it does not shrink.",
     "Why must wool not be washed hot?"},
    {"The western gate is locked at ten, and the others an hour later.",
     "Which entrance is shut first?"},
    {"The bakery on Mill Lane opens at half past six in the morning.",
     "When can one buy bread in Mill Lane at the earliest?"},
    {"The first prize of the contest was a bicycle.", "What did the winner get?"},
    {"The contract ends by itself if nobody renews it before June.",
     "What happens when the contract is not extended?"},
    {"Old batteries are collected in the yellow box beside the stairs.",
     "Where should used batteries be thrown away?"},
    {"Messages that are larger than 20 megabytes are rejected.",
     "What is the limit for the size of a message?"},
    {"A licence for fishing in the upper lake costs eighteen euros a year.",
     "What does one pay to fish in the upper lake?"},
    {"Tomatoes should be planted out after the last frost, in the middle of May.",
     "When do tomatoes go into the garden?"},
    {"The river freezes over in most years between January and March.",
     "During which months is there ice on the river?"},
    {"The bridge was closed because its cables had rusted.", "What was wrong with the bridge?"},
    {"The glass is made of sand, soda and lime, and melts at 1,400 degrees.",
     "At which temperature does the glass become liquid?"},
    {"The doctor sees new patients only on Monday mornings.",
     "When can somebody come to the doctor for the first time?"},
    {"Never store the varnish below five degrees, because it turns cloudy.",
     "What happens to varnish that is kept too cold?"},
    {"Dogs are allowed in the park if they are kept on a lead.",
     "Under which condition may dogs enter the park?"},
    {"Guests may keep a locker for no more than three nights.",
     "What is the longest time that a visitor can use a locker?"},
    {"The village school has fewer than forty pupils.",
     "How many children attend the school in the village?"},
    {"The choir rehearses in the gymnasium on Thursdays.", "On which day does the choir practise?"},
};

constexpr size_t kFactsPerParagraph = 4;

}  // namespace

std::span<const PlantedFact> PlantedFacts() { return kFacts; }

PlantedText MakePlantedText() {
  PlantedText planted;
  for (const PlantedFact& fact : kFacts) {
    if (!planted.facts.empty()) {
      planted.text += planted.facts.size() % kFactsPerParagraph == 0 ? "\n\n" : " ";
    }
    const uint64_t begin = planted.text.size();
    planted.text += fact.fact;
    planted.facts.push_back({begin, planted.text.size()});
  }
  planted.text += "\n";
  return planted;
}

}  // namespace lectern
